#include "server/reply.h"
#include "server/sample.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::read_items(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto header = reader.get<ReadHeader>();
  const auto keys = reader.records<uint64_t>(header.count);
  if (!reader.finished() || keys.empty()) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  Table* table = table_for(header.table, slot);
  if (table == nullptr || refused_without_rows(slot) ||
      refused_as_too_large(*table, header.count, false, slot))
    return 0;
  table->look_up(keys, reply_with_items(*table, header.count, slot));
  return 0;
}

}  // namespace drlnet
