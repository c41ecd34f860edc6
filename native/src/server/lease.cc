// Leases of streams: lease, resume and release.
#include "base/world.h"
#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::lease(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<LeaseRequest>();
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  Table* table = table_for(request.table, slot);
  if (table == nullptr) return 0;
  const uint64_t most = sessions_.limits().streams;
  const uint64_t now = now_ns();
  if (!table->streams().has_room(request.count, most, now)) {
    return refuse_beyond(Limit::streams, slot,
                         std::to_string(request.count) + " streams, where a table has at most " +
                             std::to_string(most) + " leased",
                         "use fewer environments, or raise server.limits.streams");
  }
  peer.has_streams = true;
  try {
    table->streams().require_room(request.count, now);  // all or none
    for (uint32_t i = 0; i < request.count; ++i) {
      reply_with(slot, table->streams().lease(peer.client, now, most));
    }
    table->count_streams();
  } catch (const Error& error) {
    return refuse(slot, error.status(), error.cause(), error.remedy());
  }
  return 0;
}

uint16_t Server::resume(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<StreamRequest>();
  const auto names = reader.records<StreamName>(request.count);
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  Table* table = table_for(request.table, slot);
  if (table == nullptr) return 0;
  peer.has_streams = true;
  try {
    for (const StreamName& name : names) {
      reply_with(slot, table->streams().resume(name.ordinal, name.token, peer.client));
    }
  } catch (const Error& error) {
    return refuse(slot, error.status(), error.cause(), error.remedy());
  }
  return 0;
}

uint16_t Server::release(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<StreamRequest>();
  const auto names = reader.records<StreamName>(request.count);
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  Table* table = table_for(request.table, slot);
  if (table == nullptr) return 0;
  for (const StreamName& name : names)
    table->streams().release(name.ordinal, name.epoch, name.token);
  table->count_streams();
  return 0;
}

}  // namespace drlnet
