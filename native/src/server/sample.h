// Answers a sample request once it has been parsed. Threading: the table's.
#pragma once

#include <cstdint>

#include "replay/table.h"
#include "session/server/peer.h"
#include "wire/messages.h"

namespace drlnet {

// Draws a batch and leaves it in the slot as the source of the reply's bytes, or the references to
// its rows as these. 0, or as a Wait why the session's request has to wait.
uint16_t answer_sample(Table& table, const SampleRequest& request, uint64_t from, uint32_t session,
                       Slot& slot);

// Makes rows of the table the source of the slot's reply: of `items` items, which the caller fills
// in.
DrawnBatch& reply_with_items(const Table& table, uint32_t items, Slot& slot);
// Makes that run of the table's rows the source.
void reply_with_rows(const Table& table, const FollowHeader& run, Slot& slot);
// Whether the reply of this slot, one of the sample lane, is made of that table's rows.
bool gathers_from(const Table& table, const Slot& slot);

}  // namespace drlnet
