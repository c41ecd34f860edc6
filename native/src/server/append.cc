#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::append(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto header = reader.get<AppendHeader>();
  if (!reader.ok()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  const OpenTable* open = open_table_for(header.table, slot);
  if (open == nullptr) return 0;
  peer.has_streams = true;  // it may adopt them
  Append append{{}, {}, columns_, {}, peer.client};
  if (!split_append(body, open->column_bytes, append)) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  Table& table = *open->table;
  if (table.is_queue() && append.row_flags.size() > table.spec().capacity) {
    return refuse(slot, Status::config,
                  "an append of " + std::to_string(append.row_flags.size()) + " rows to table '" +
                      open->asked.name + "', a queue that holds " +
                      std::to_string(table.spec().capacity),
                  "append fewer rows at once, or raise the capacity");
  }
  if (!table.may_insert(append, peer.connection)) {
    peer.lane(Lane::append).waits = &table.waits();
    return static_cast<uint16_t>(Wait::inserts_limit);
  }
  if (keeper_) {
    if (const uint16_t wait = append_waits(table, append, peer, slot)) return wait;
  }
  const uint64_t most = sessions_.limits().append_rows;
  if (most > 0 && !peer.rows.take(append.row_flags.size(), most, sessions_.clock_ns())) {
    table.give_room_back();
    return refuse_beyond(Limit::append_rows, slot,
                         "an append of more than " + std::to_string(most) + " rows a second",
                         "append more slowly, or raise server.limits.append_rows");
  }
  AppendResult result;
  slot.status = table.append(append, result);
  if (keeper_ && slot.status == Status::ok) note_durability(result);
  reply_with(slot, result);  // the client words the error: it knows the streams by its own numbers
  return 0;
}

}  // namespace drlnet
