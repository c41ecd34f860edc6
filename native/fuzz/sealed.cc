// Arbitrary frames into both ends of a session with keys, from either end's own address: nothing of
// them is believed, and the session goes on.
#include "base/assert.h"
#include "base/world.h"
#include "fuzz.h"
#include "raw_session.h"
#include "session/client/connection.h"
#include "session/seal.h"
#include "session/server/sessions.h"
#include "transport/forwarding.h"

namespace drlnet::fuzz {
namespace {

constexpr uint8_t kToClient = 4;    // a flag beside Fix
constexpr uint32_t kAnyNumber = 1;  // of a session, in seeds
constexpr uint64_t kPatienceNs = 10'000'000'000;

// Memory that the core takes for a network.
class Network final : public ForwardingTransport {
 public:
  explicit Network(std::unique_ptr<Transport> inner) : ForwardingTransport(std::move(inner)) {}
  bool may_alter_bytes() const override { return true; }
};

class Echo final : public RequestHandler {
 public:
  uint16_t handle(Peer&, Slot& slot, std::span<const std::byte> body) override {
    DRLNET_ASSERT(slot.operation == Operation::ping);  // what the client sends
    slot.bytes.assign(body.begin(), body.end());
    return 0;
  }
  void retry_waiting() override {}
  void ended(Peer&) override {}
};

Key key_of(unsigned number) {
  Key key;
  key.fill(static_cast<std::byte>(number));
  return key;
}

// A frame of the handshake: keyed_hello, cookie or keyed_welcome.
Bytes opening(FrameKind kind, size_t bytes) {
  FrameHeader header;
  header.kind = kind;
  header.frame_bytes = kMinFrameBytes;
  header.length = static_cast<uint32_t>(bytes);
  Bytes frame;
  ByteWriter(frame).put(header);
  frame.resize(kHeaderBytes + bytes, std::byte{7});
  return frame;
}

void ping(Sessions& sessions, Connection& client) {
  Call& call = client.begin(Operation::ping);
  call.body.assign(24, std::byte{5});
  const CallId id = client.submit(call);
  const uint64_t end = now_ns() + kPatienceNs;
  while (!client.done(id)) {
    client.progress();
    sessions.poll();
    DRLNET_ASSERT(client.state() != Connection::State::lost && now_ns() < end);
  }
  const auto echoed = client.call(id).result();
  DRLNET_ASSERT(echoed.size() == 24 && echoed[23] == std::byte{5});
  client.release(id);
}

}  // namespace

std::vector<Bytes> seeds() {
  const auto flags = static_cast<uint8_t>(kFixHeader | kFixLength);
  Bytes sealed = request_frame(Operation::ping, 1, Bytes(30));
  sealed[3] |= std::byte{kSealedBit};
  std::vector<Bytes> list(2);
  add_frame(list[0], opening(FrameKind::keyed_hello, sizeof(KeyedHello)), flags);
  add_frame(list[0], opening(FrameKind::keyed_hello, 1400), flags);
  add_frame(list[0], sealed, kFixHeader);
  add_frame(list[0], request_frame(Operation::ping, 1, Bytes(30)), flags);
  add_frame(list[0], hello_frame(9), 0);
  for (const FrameKind kind : {FrameKind::cookie, FrameKind::keyed_welcome, FrameKind::reset}) {
    add_frame(list[1], opening(kind, sizeof(KeyedWelcome)), flags | kToClient);
    add_frame(list[1], sealed, kFixHeader | kToClient);
  }
  return list;
}

void run(std::span<const std::byte> input) {
  Echo echo;
  Sessions sessions(echo, {1, 1});
  const ServerKeys identity(key_of(1),
                            {public_of(key_of(2)), public_of(key_of(3)), public_of(key_of(4))});
  sessions.require_keys(std::make_shared<KeyStore>(KeyRing{identity}));
  sessions.add_listener(std::make_unique<Network>(listen("memory:")));
  Connected connected = connect(sessions.listeners()[0]->local_address());
  const Endpoint to_server = connected.server;
  connected.transport = std::make_unique<Network>(std::move(connected.transport));
  Connection client(std::move(connected), "client", ClientKey{key_of(3), identity.public_key});
  ping(sessions, client);
  DRLNET_ASSERT(sessions.peers().size() == 1);
  while (!input.empty()) {
    const bool to_client = input.size() > 2 && (input[2] & std::byte{kToClient}) != std::byte{0};
    const auto peers = sessions.peers();
    Bytes frame = take_frame(input, peers.empty() ? kAnyNumber : peers[0]->connection);
    if (frame.size() >= kHeaderBytes && !Sealing::is_sealed(frame)) {
      TxFrame summed;
      summed.data = frame.data();
      summed.length = static_cast<uint32_t>(frame.size());
      seal(summed);
    }
    if (!to_client) {
      send_frame(client.transport(), to_server, frame);
    } else if (!peers.empty()) {
      send_frame(*sessions.listeners()[0], peers[0]->endpoint, frame);
    }
    client.progress();
    sessions.poll();
  }
  ping(sessions, client);
}

}  // namespace drlnet::fuzz
