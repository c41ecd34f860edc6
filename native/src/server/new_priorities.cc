#include <algorithm>

#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::new_priorities(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<ChangesRequest>();
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  OpenTable* open = open_table_for(request.table, slot);
  if (open == nullptr) return 0;
  if (open->table->rows_without_columns() > 0) return wait_for_columns(peer, slot, request.table);
  const uint64_t bytes = open->table->bytes_to_keep_changes();
  if (bytes > memory_limit_ - memory_used_) {
    return refuse(slot, Status::config,
                  "to know what changes in table '" + open->asked.name + "' takes " +
                      std::to_string(bytes >> 20) + " MiB more than the server has left",
                  "lower the capacity, or let the server draw");
  }
  ChangesHeader header;
  try {
    header = open->table->changes(request.since, std::min(request.most, kMaxChanges), changed_keys_,
                                  changed_priorities_);
  } catch (const Error& error) {  // the machine has less left than the server may take
    return refuse(slot, error);
  }
  memory_used_ += bytes;
  open->memory_bytes += bytes;
  slot.work = static_cast<uint32_t>(changed_keys_.size() / Sessions::kUnitItems);
  ByteWriter writer(slot.bytes);
  writer.put(header);
  writer.raw(std::as_bytes(std::span(changed_keys_)));
  writer.raw(std::as_bytes(std::span(changed_priorities_)));
  return 0;
}

}  // namespace drlnet
