// The handshake of sealed sessions behind its cookie, and frames within them: a client or a server
// that has its key says what it likes, encrypted as it should be. The other end takes or refuses
// it, and a server goes on with its honest clients.
#include "base/assert.h"
#include "fuzz.h"
#include "keyed_session.h"
#include "session/keys/sealing.h"

namespace drlnet::fuzz {
namespace {

// The first byte of an input: which of them speaks.
enum Speaker : uint8_t { kClient, kServer, kSpeakers };
// In a frame's flags beside Fix: what it is, in two bits; the client's role, in two more.
enum Step : uint8_t {
  kSealedFrame,
  kOffer,   // a payload of the handshake, a Hello or an Admission, encrypted as it should be
  kForged,  // the same, but that bytes of the message are altered
  kCookie   // from a server; a client says hello without one
};
constexpr uint8_t kStepShift = 2, kRoleShift = 4;
constexpr uint8_t kNextKey = 64;  // with this frame its speaker goes on to the next key
constexpr uint64_t kNonce = 9;

Suite suite_of(uint64_t capabilities) {
  return (capabilities & kAes) != 0 ? Suite::aes_256_gcm : Suite::chacha20_poly1305;
}

template <typename Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename Value>
Value value_of(std::span<const std::byte> bytes) {
  Value value{};
  std::ranges::copy(bytes.first(std::min(bytes.size(), sizeof value)),
                    std::as_writable_bytes(std::span(&value, 1)).begin());
  return value;
}

void alter(std::span<std::byte> message, std::span<const std::byte> by) {
  for (size_t i = 1; i < by.size(); ++i) {
    message[(static_cast<size_t>(by[0]) + i) % message.size()] ^= by[i];
  }
}

// What a speaker that has the session's keys sends in it.
class Speech {
 public:
  void begin(Suite suite, const SessionKeys& keys, Sealing::Side side, uint32_t number) {
    sealing_.emplace(suite, keys, side);
    connection = number;
    packet_ = 0;
  }
  void seal(Bytes& frame, bool next_key) {
    if (!sealing_ || frame.size() < kHeaderBytes) return;
    packet_ =
        next_key ? ((packet_ >> Sealing::kPacketBits) + 1) << Sealing::kPacketBits : packet_ + 1;
    std::memcpy(&frame[offsetof(FrameHeader, packet_number)], &packet_, sizeof packet_);
    TxFrame out;
    out.data = frame.data();
    out.length = static_cast<uint32_t>(frame.size());
    sealing_->seal(out);
  }

  uint32_t connection = kAnyNumber;

 private:
  std::optional<Sealing> sealing_;
  uint64_t packet_ = 0;
};

// A client that has a key, and says what the input has.
class KeyedClient {
 public:
  explicit KeyedClient(Served& served) : served_(served), link_(served.connect_to()) { say({}); }

  void step(Step step, uint8_t flags, Bytes bytes) {
    if (step == kSealedFrame) {
      speech.seal(bytes, (flags & kNextKey) != 0);
      send_summed(*link_.transport, link_.server, bytes);
      hear();
      return;
    }
    KeyedHello hello{.key_id = identity().id};
    if (step != kCookie) {
      hello.cookie = cookie_;
      initiator_.emplace(key_of(2 + (flags >> kRoleShift) % 4), identity().public_key, cookie_);
      const auto message = initiator_->begin(bytes_of(value_of<Hello>(bytes)));
      std::ranges::copy(message, hello.message.begin());
      if (step == kForged) alter(hello.message, bytes);
      const size_t before = served_.sessions.peers().size();
      say(hello);
      const bool forged = !std::ranges::equal(hello.message, message);
      DRLNET_ASSERT(!forged || served_.sessions.peers().size() <= before);
      return;
    }
    say(value_of<KeyedHello>(bytes));
  }

  Speech speech;

 private:
  void say(const KeyedHello& hello) {
    Bytes frame = handshake_frame(FrameKind::keyed_hello, kNonce, bytes_of(hello));
    send_summed(*link_.transport, link_.server, frame);
    hear();
  }
  void hear() {
    served_.sessions.poll();
    for (const RxFrame& frame : link_.transport->recv_burst()) {
      FrameHeader header;
      if (Sealing::is_sealed(frame.data) || parse_frame(frame.data, header)) continue;
      const auto payload = frame_payload(frame.data);
      if (header.kind == FrameKind::cookie) {
        std::memcpy(cookie_.data(), payload.data(), cookie_.size());
      } else if (header.kind == FrameKind::keyed_welcome && initiator_) {
        Admission admission;
        const auto keys = initiator_->finish(payload.first(sizeof(KeyedWelcome)),
                                             std::as_writable_bytes(std::span(&admission, 1)));
        if (!keys) continue;
        speech.begin(suite_of(admission.welcome.capabilities), *keys, Sealing::Side::client,
                     admission.connection);
      }
    }
  }

  Served& served_;
  Connected link_;
  decltype(KeyedHello::cookie) cookie_{};
  std::optional<Initiator> initiator_;
};

void run_client(std::span<const std::byte> input) {
  Served served;
  KeyedClient client(served);
  while (!input.empty()) {
    const auto flags = input.size() > 2 ? static_cast<uint8_t>(input[2]) : uint8_t{0};
    const auto step = static_cast<Step>(flags >> kStepShift & 3);
    client.step(step, flags, take_frame(input, client.speech.connection));
    served.client->progress();
  }
  served.ping();
}

// A server that has its key, and says what the input has to an honest client.
class KeyedServer {
 public:
  KeyedServer() : listener_(std::make_unique<Network>(listen("memory:"))), destination_(4096) {
    Connected connected = connect(listener_->local_address());
    connected.transport = std::make_unique<Network>(std::move(connected.transport));
    client_.emplace(std::move(connected), "client", ClientKey{key_of(3), identity().public_key});
    hear();
    tell(handshake_frame(FrameKind::cookie, hello_.request, Bytes(16, std::byte{7})));
  }

  void step(Step step, uint8_t flags, Bytes bytes) {
    if (step == kSealedFrame) {
      speech.seal(bytes, (flags & kNextKey) != 0);
      return tell(std::move(bytes));
    }
    if (step == kCookie) return tell(handshake_frame(FrameKind::cookie, hello_.request, bytes));
    Responder responder(identity().secret, identity().public_key, keyed_.cookie);
    Hello hello;
    if (!responder.read(keyed_.message, std::as_writable_bytes(std::span(&hello, 1)))) return;
    auto admission = value_of<Admission>(bytes);
    if ((flags & kFixHeader) != 0) admission.welcome.nonce = hello.nonce;
    Bytes message;
    const auto keys = responder.finish(bytes_of(admission), message);
    DRLNET_ASSERT(keys.has_value());
    const Bytes right = message;
    if (step == kForged) alter(message, bytes);
    tell(handshake_frame(FrameKind::keyed_welcome, hello_.request, message, kMinFrameBytes));
    if (welcomed_) return;  // it holds to the first answer
    welcomed_ = message == right;
    if (!welcomed_) {
      DRLNET_ASSERT(client_->state() != Connection::State::open);
      return;
    }
    speech.begin(suite_of(admission.welcome.capabilities), *keys, Sealing::Side::server,
                 admission.connection);
  }

  Speech speech;

 private:
  void hear() {
    client_->progress();
    if (client_->state() == Connection::State::open && !asked_) {
      client_->submit(client_->begin(Operation::stats));
      Call& sample = client_->begin(Operation::sample);
      sample.destination = std::span(destination_);
      sample.body.resize(sizeof(SampleRequest));
      client_->submit(sample);
      asked_ = true;
    }
    for (const RxFrame& frame : listener_->recv_burst()) {
      FrameHeader header;
      if (Sealing::is_sealed(frame.data) || parse_frame(frame.data, header)) continue;
      if (header.kind != FrameKind::keyed_hello) continue;
      hello_ = header;
      keyed_ = value_of<KeyedHello>(frame_payload(frame.data));
      from_ = frame.from;
    }
  }
  void tell(Bytes frame) {
    send_summed(*listener_, from_, frame);
    hear();
  }

  std::unique_ptr<Transport> listener_;
  Bytes destination_;  // before the client: a late write into it is one into freed memory
  std::optional<Connection> client_;
  bool welcomed_ = false, asked_ = false;
  FrameHeader hello_;
  KeyedHello keyed_;
  Endpoint from_;
};

void run_server(std::span<const std::byte> input) {
  KeyedServer server;
  while (!input.empty()) {
    const auto flags = input.size() > 2 ? static_cast<uint8_t>(input[2]) : uint8_t{0};
    const auto step = static_cast<Step>(flags >> kStepShift & 3);
    server.step(step, flags, take_frame(input, server.speech.connection));
  }
}

}  // namespace

std::vector<Bytes> seeds() {
  const auto fixed = static_cast<uint8_t>(kFixHeader | kFixLength);
  const auto of = [](Step step, unsigned role = 0) {
    return static_cast<uint8_t>(step << kStepShift | role << kRoleShift);
  };
  Hello hello;
  hello.client = kNonce;
  hello.nonce = kNonce;
  Bytes client{std::byte{kClient}};
  add_frame(client, bytes_of(hello), of(kOffer, 1));
  add_frame(client, request_frame(Operation::ping, 1, Bytes(30)), fixed);
  add_frame(client, request_frame(Operation::publish, 1, Bytes(30)), fixed);
  add_frame(client, pull_frame(Lane::control, 1, 0, 24), fixed | kNextKey);
  add_frame(client, Bytes(4, std::byte{1}), of(kForged, 1));
  add_frame(client, bytes_of(hello), of(kOffer, 3));  // a key that the server does not know
  add_frame(client, bytes_of(KeyedHello{.key_id = identity().id}), of(kCookie));
  Admission admission;
  admission.welcome.lineage = 1;
  admission.connection = 4097;
  admission.credit = 1 << 20;
  Bytes server{std::byte{kServer}};
  add_frame(server, Bytes(4, std::byte{1}), of(kForged));
  add_frame(server, bytes_of(admission), of(kOffer) | kFixHeader);
  Bytes reply = request_frame(Operation::stats, 1, Bytes(300));
  reply[offsetof(FrameHeader, kind)] = static_cast<std::byte>(FrameKind::response);
  add_frame(server, reply, fixed);
  reply[offsetof(FrameHeader, operation)] = static_cast<std::byte>(Operation::sample);
  add_frame(server, reply, fixed | kNextKey);
  add_frame(server, Bytes(16, std::byte{3}), of(kCookie));
  return {client, server};
}

void run(std::span<const std::byte> input) {
  if (input.empty()) return;
  const auto speaker = static_cast<uint8_t>(input[0]) % kSpeakers;
  input = input.subspan(1);
  if (speaker == kClient) return run_client(input);
  run_server(input);
}

}  // namespace drlnet::fuzz
