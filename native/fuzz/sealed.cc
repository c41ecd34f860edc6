// Arbitrary frames into both ends of a session with keys, from either end's own address: nothing of
// them is believed, and the session goes on.
#include "base/assert.h"
#include "fuzz.h"
#include "keyed_session.h"

namespace drlnet::fuzz {
namespace {

constexpr uint8_t kToClient = 4;  // a flag beside Fix

Bytes opening(FrameKind kind, size_t bytes) {
  return handshake_frame(kind, 0, Bytes(bytes, std::byte{7}));
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
  Served served;
  Sessions& sessions = served.sessions;
  while (!input.empty()) {
    const bool to_client = input.size() > 2 && (input[2] & std::byte{kToClient}) != std::byte{0};
    const auto peers = sessions.peers();
    Bytes frame = take_frame(input, peers.empty() ? kAnyNumber : peers[0]->connection);
    if (!to_client) {
      send_summed(served.client->transport(), served.to_server, frame);
    } else if (!peers.empty()) {
      send_summed(*sessions.listeners()[0], peers[0]->endpoint, frame);
    }
    served.client->progress();
    sessions.poll();
  }
  served.ping();
  DRLNET_ASSERT(served.echo.others == 0);
}

}  // namespace drlnet::fuzz
