#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::list_tables(Peer&, Slot& slot, std::span<const std::byte> body) {
  if (!body.empty()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  std::vector<TableSpec> specs;
  for (const OpenTable& open : tables_) specs.push_back(open.asked);
  encode(specs, slot.bytes);
  return 0;
}

}  // namespace drlnet
