#include <algorithm>

#include "server/reply.h"
#include "server/sample.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::drop_table(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto number = reader.get<uint32_t>();
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  if (const OpenTable* open = tables_.find(number)) {
    drop(*open);
  } else if (const Error why = tables_.why_none(number); why.status() != Status::table_dropped) {
    return refuse(slot, why);
  }
  return 0;
}

// The table goes at once: what points to it lets go. Requests that wait for it run again in this
// round, and find no table of their number; replies that are still on their way become refusals.
void Server::drop(const OpenTable& open) {
  Table& table = *open.table;
  for (Peer* peer : sessions_.peers()) {
    for (LaneState& lane : peer->lanes) {
      if (lane.waits == &table.waits()) lane.waits = nullptr;
    }
    for (Slot& one : peer->lane(Lane::sample).slots) {
      if (gathers_from(table, one)) refuse(one, dropped(open.asked.name));
    }
  }
  const std::vector<Waiter> line = table.end_line();
  refused_.insert(refused_.end(), line.begin(), line.end());
  memory_used_ -= open.memory_bytes;
  tables_.drop(open.number);
}

void Server::follow_drops() {
  for (;;) {
    const auto gone = std::ranges::find_if(
        tables_, [](const OpenTable& open) { return open.table->has_ended(); });
    if (gone == tables_.end()) return;
    drop(*gone);
    if (keeper_) keeper_->want_cut();  // as the shard that was asked does before it answers
  }
}

}  // namespace drlnet
