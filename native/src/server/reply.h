// How handlers leave fixed records in a reply.
#pragma once

#include <span>

#include "replay/table.h"
#include "session/peer.h"
#include "wire/codec.h"

namespace drlnet {

template <typename Record>
void reply_with(Slot& slot, const Record& record) {
  Writer(slot.bytes).put(record);
}

// The request waits for the table's limiter.
inline uint16_t hold(Slot& slot, Table& table, Wait reason) {
  slot.waits = &table.waits();
  return static_cast<uint16_t>(reason);
}

// What a client of ours never sends.
constexpr std::string_view kMalformed = "the request's bytes do not parse";
constexpr std::string_view kMalformedRemedy = "install the same drlnet on both sides";

}  // namespace drlnet
