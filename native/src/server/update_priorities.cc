#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::update_priorities(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto header = reader.get<UpdateHeader>();
  const auto keys = reader.records<uint64_t>(header.count);
  const auto priorities = reader.records<float>(header.count);
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  Table* table = table_for(header.table, slot);
  if (table == nullptr) return 0;
  slot.work = header.count / Sessions::kUnitItems;
  UpdateResult result{};
  if (table->update_priorities(keys, priorities, result.applied, result.stale) != Status::ok) {
    return refuse(slot, Status::bad_priority, "a priority is NaN, infinite or negative",
                  "send finite priorities of 0 or more; none of this update was applied");
  }
  reply_with(slot, result);
  return 0;
}

}  // namespace drlnet
