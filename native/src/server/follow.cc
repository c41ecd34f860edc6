#include <algorithm>

#include "server/reply.h"
#include "server/sample.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::follow(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<FollowRequest>();
  if (!reader.finished() || (request.most & ~kBefore) == 0) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  const OpenTable* open = open_table_for(request.table, slot);
  if (open == nullptr) return 0;
  const Table& table = *open->table;
  if (table.rows_without_columns() > 0) return wait_for_columns(peer, slot, request.table);
  // With room for the header, and for what lies between columns.
  const uint64_t room = kMaxReplyBytes / 2 / table.spec().row_bytes();
  const bool before = (request.most & kBefore) != 0;
  const auto most = static_cast<uint32_t>(std::clamp<uint64_t>(room, 1, request.most & ~kBefore));
  const std::optional<FollowHeader> run =
      before ? table.follow_back(request.key, most) : table.follow(request.key, most);
  if (!run && table.index_only() && !before) {
    return refuse(slot, Status::config,
                  "table '" + open->asked.name +
                      "' has lost rows that a follower lacks: an --index-only server keeps the "
                      "newest " +
                      std::to_string(table.kept_rows()) + " alone",
                  "start the learner again: it draws what came since; or a server that keeps rows");
  }
  if (!run) {
    return refuse(slot, Status::bad_request,
                  "table '" + open->asked.name + "' has not had the row that a follower asks for",
                  "follow it anew");
  }
  if (run->count == 0 && !before) {
    followers_.push_back({peer.connection, Lane::sample, request.table, run->head});
    return static_cast<uint16_t>(Wait::rows);
  }
  reply_with_rows(table, *run, slot);
  return 0;
}

// For what a client asks of all rows or items: some are not there yet.
uint16_t Server::wait_for_columns(const Peer& peer, const Slot& slot, uint32_t table) {
  followers_.push_back({peer.connection, lane_of(slot.operation), table, 0});
  return static_cast<uint16_t>(Wait::state);
}

// Those whose rows have come, and those whose table is gone, which learn of it.
void Server::retry_followers() {
  const auto waits = [&](const Follower& one) {
    const OpenTable* open = tables_.find(one.table);
    if (open == nullptr) return false;
    return open->table->rows_without_columns() > 0 || open->table->head_key() == one.head;
  };
  const auto ready = std::ranges::partition(followers_, waits);
  const std::vector<Follower> due(ready.begin(), ready.end());
  followers_.erase(ready.begin(), ready.end());
  for (const Follower& one : due) sessions_.run_waiting(one.session, one.lane);
}

}  // namespace drlnet
