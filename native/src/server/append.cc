#include <algorithm>

#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::append(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto header = reader.get<AppendHeader>();
  if (!reader.ok()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  Table* table = table_for(header.table, slot);
  if (table == nullptr) return 0;
  Append append{{}, {}, columns_, {}, peer.client};
  if (!split_append(body, column_bytes_[header.table], append)) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  const bool counts = !append.items.empty() || table->is_queue();
  if (counts && !lets_in(peer, header.table, append)) {
    peer.lane(Lane::append).waits = &table->waits();
    return static_cast<uint16_t>(Wait::inserts_limit);
  }
  AppendResult result;
  slot.status = table->append(append, result);
  reply_with(slot, result);  // the client words the error: it knows the streams by its own numbers
  return 0;
}

// In the order in which they came: a short append would else pass a longer one that came before
// it, again and again, each taking what little room the draws have made.
bool Server::lets_in(const Peer& peer, uint32_t table, const Append& append) {
  std::vector<uint32_t>& queue = held_appends_[table];
  const bool first = queue.empty() || queue.front() == peer.connection;
  if (first && tables_[table]->may_insert(append)) {
    if (!queue.empty()) queue.erase(queue.begin());
    return true;
  }
  if (std::ranges::find(queue, peer.connection) == queue.end()) queue.push_back(peer.connection);
  return false;
}

}  // namespace drlnet
