// How handlers leave fixed records in a reply.
#pragma once

#include <span>

#include "session/server/peer.h"
#include "wire/codec.h"

namespace drlnet {

template <typename Record>
void reply_with(Slot& slot, const Record& record) {
  ByteWriter(slot.bytes).put(record);
}

// What a client of ours never sends.
constexpr std::string_view kMalformed = "the request's bytes do not parse";
constexpr std::string_view kMalformedRemedy = "install the same drlnet on both sides";

}  // namespace drlnet
