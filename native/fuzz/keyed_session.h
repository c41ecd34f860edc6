// Both ends of a session with keys, in one thread: for targets that speak to either.
#pragma once

#include <memory>
#include <optional>

#include "raw_session.h"
#include "session/client/connection.h"
#include "session/server/sessions.h"
#include "transport/forwarding.h"

namespace drlnet::fuzz {

constexpr uint32_t kAnyNumber = 1;  // of a session, in seeds

// Memory that the core takes for a network.
class Network final : public ForwardingTransport {
 public:
  explicit Network(std::unique_ptr<Transport> inner) : ForwardingTransport(std::move(inner)) {}
  bool may_alter_bytes() const override { return true; }
};

// Answers what it is asked.
class Echo final : public RequestHandler {
 public:
  uint16_t handle(Peer&, Slot& slot, std::span<const std::byte> body) override {
    others += slot.operation != Operation::ping;
    slot.bytes.assign(body.begin(), body.end());
    return 0;
  }
  void retry_waiting() override {}
  void ended(Peer&) override {}

  uint64_t others = 0;  // than pings, which are all that an honest client sends
};

Key key_of(unsigned number);
// A server's, whose clients have keys 2 to 4.
const ServerKeys& identity();

// A server's sessions, one of which is an honest client's.
struct Served {
  Echo echo;
  Sessions sessions{echo, {1, 1}};
  std::optional<Connection> client;
  Endpoint to_server;

  Served();
  Connected connect_to();
  void ping();  // by the honest client, which is answered
};

// With its checksum, where it is not sealed.
void send_summed(Transport& transport, const Endpoint& to, Bytes& frame);
// A keyed_hello, a cookie or a keyed_welcome.
Bytes handshake_frame(FrameKind kind, uint64_t request, std::span<const std::byte> payload,
                      size_t least_bytes = 0);

}  // namespace drlnet::fuzz
