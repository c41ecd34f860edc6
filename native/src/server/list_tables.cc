#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::list_tables(Peer&, Slot& slot, std::span<const std::byte> body) {
  if (!body.empty()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  encode(specs_, slot.bytes);
  return 0;
}

}  // namespace drlnet
