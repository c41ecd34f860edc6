#include "keyed_session.h"

#include "base/assert.h"
#include "base/world.h"
#include "session/seal.h"

namespace drlnet::fuzz {
namespace {

constexpr uint64_t kPatienceNs = 10'000'000'000;

}  // namespace

Key key_of(unsigned number) {
  Key key;
  key.fill(static_cast<std::byte>(number));
  return key;
}

const ServerKeys& identity() {
  static const ServerKeys keys(key_of(1),
                               {public_of(key_of(2)), public_of(key_of(3)), public_of(key_of(4))});
  return keys;
}

Served::Served() {
  sessions.require_keys(std::make_shared<KeyStore>(KeyRing{identity()}));
  sessions.add_listener(std::make_unique<Network>(listen("memory:")));
  Connected connected = connect_to();
  to_server = connected.server;
  client.emplace(std::move(connected), "client", ClientKey{key_of(3), identity().public_key});
  ping();
  DRLNET_ASSERT(sessions.peers().size() == 1);
}

Connected Served::connect_to() {
  Connected connected = connect(sessions.listeners()[0]->local_address());
  connected.transport = std::make_unique<Network>(std::move(connected.transport));
  return connected;
}

void Served::ping() {
  Call& call = client->begin(Operation::ping);
  call.body.assign(24, std::byte{5});
  const CallId id = client->submit(call);
  const uint64_t end = now_ns() + kPatienceNs;
  while (!client->done(id)) {
    client->progress();
    sessions.poll();
    DRLNET_ASSERT(client->state() != Connection::State::lost && now_ns() < end);
  }
  const auto echoed = client->call(id).result();
  DRLNET_ASSERT(echoed.size() == 24 && echoed[23] == std::byte{5});
  client->release(id);
}

void send_summed(Transport& transport, const Endpoint& to, Bytes& frame) {
  if (frame.size() >= kHeaderBytes && !Sealing::is_sealed(frame)) {
    TxFrame summed;
    summed.data = frame.data();
    summed.length = static_cast<uint32_t>(frame.size());
    seal(summed);
  }
  send_frame(transport, to, frame);
}

Bytes handshake_frame(FrameKind kind, uint64_t request, std::span<const std::byte> payload,
                      size_t least_bytes) {
  FrameHeader header;
  header.kind = kind;
  header.frame_bytes = kMinFrameBytes;
  header.request = request;
  header.length = static_cast<uint32_t>(payload.size());
  Bytes frame;
  ByteWriter writer(frame);
  writer.put(header);
  writer.raw(payload);
  frame.resize(std::max(frame.size(), least_bytes));
  return frame;
}

}  // namespace drlnet::fuzz
