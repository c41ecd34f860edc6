#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::empty_table(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto number = reader.get<uint32_t>();
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  if (Table* table = table_for(number, slot)) table->empty();
  return 0;
}

}  // namespace drlnet
