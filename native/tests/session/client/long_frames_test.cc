// Frames of a whole turn where link and buffers take them, shorter ones where they do not; and no
// more of a reply unasked than ever.
#include "session/bench.h"
#include "session/flow.h"
#include "transport/watching.h"

namespace drlnet::test {
namespace {

constexpr size_t kLarge = 1 << 20;

// A server and clients over UDP whose receive capacity is what a test says.
struct LongBench : Bench {
  LongBench(size_t mtu, size_t receive_capacity_bytes) : Bench("memory:", 0, 1) {
    auto transport = std::make_unique<WatchingTransport>(true, mtu, receive_capacity_bytes);
    address = transport->local_address();
    sessions.add_listener(std::move(transport));
    clients.clear();
  }
  Connection& add_client(size_t receive_capacity_bytes) {
    const auto server = udp::resolve(address.substr(std::strlen("udp://")))[0];
    clients.push_back(std::make_unique<Connection>(
        Connected{std::make_unique<WatchingTransport>(true, kMaxFrameBytes, receive_capacity_bytes),
                  udp::to_endpoint(server)},
        "test"));
    open();
    return *clients.back();
  }
};

}  // namespace

TEST_CASE("frames are as long as a turn where the client's and the server's buffers hold several") {
  struct Buffers {
    size_t server, client;
    std::array<size_t, 2> expected;  // of the first client and, as credit is shared, of the second
  };
  for (const auto& [server, client, expected] :
       {Buffers{kLarge, kLarge, {kMaxFrameBytes, kMaxFrameBytes}},
        Buffers{kLarge, 520 << 10, {kMaxFrameBytes, kMaxFrameBytes}},
        Buffers{kLarge, 510 << 10, {kJumboFrameBytes, kJumboFrameBytes}},
        Buffers{kLarge, 100 << 10, {kJumboFrameBytes, kJumboFrameBytes}},
        Buffers{200 << 10, kLarge, {kMaxFrameBytes, kJumboFrameBytes}},
        Buffers{30 << 10, kLarge, {kJumboFrameBytes, kJumboFrameBytes}}}) {
    CAPTURE(server);
    CAPTURE(client);
    LongBench bench(kMaxFrameBytes, server);
    for (const size_t frame_bytes : expected) {
      CHECK(bench.add_client(client).frame_bytes() == frame_bytes);
    }
  }
}

TEST_CASE("a server whose link takes no long frames is reached in the longest that it takes") {
  for (const auto& [mtu, expected] : std::vector<std::pair<size_t, size_t>>{
           {kMaxFrameBytes, kMaxFrameBytes}, {8972, 8968}, {1472, 1472}, {1460, 1448}}) {
    CAPTURE(mtu);
    LongBench bench(mtu, kLarge);
    Connection& client = bench.add_client(kLarge);
    CHECK(client.frame_bytes() == expected);
    std::vector<std::byte> into(300'000);
    const CallId sample = order(client, 4, into), appended = append(client, 5, 200'000);
    bench.run_until([&] { return client.done(sample) && client.done(appended); });
    check_pattern(4, into);
  }
}

TEST_CASE("of a long reply one long frame comes unasked, or as many short ones as ever") {
  struct Unasked {
    size_t receive_capacity_bytes, frame_bytes, frames;
  };
  for (const auto& [receive_capacity_bytes, frame_bytes, frames] :
       {Unasked{kLarge, kMaxFrameBytes, 1}, Unasked{300 << 10, kJumboFrameBytes, 5},
        Unasked{100 << 10, kJumboFrameBytes, 2}}) {
    CAPTURE(frame_bytes);
    LongBench bench(kMaxFrameBytes, kLarge);
    Connection& client = bench.add_client(receive_capacity_bytes);
    const Peer& peer = *bench.sessions.peers()[0];
    const uint64_t sent = peer.traffic.bytes_sent;
    const uint64_t payload = frame_bytes - kHeaderBytes, unasked = frames * payload;
    std::vector<std::byte> into(1'000'000);
    const CallId id = order(client, 3, into);
    for (int round = 0; round < 20; ++round) bench.sessions.poll();
    CHECK(peer.traffic.bytes_sent - sent == frames * frame_bytes);
    // Both sides know where that ends: the client asks for what follows.
    client.progress();
    CHECK(client.call(id).got == unasked);
    bench.sessions.poll();
    const uint64_t turn = (peer.traffic.bytes_sent - sent) / frame_bytes * payload - unasked;
    CHECK(turn >= Sessions::kTurnBytes);
    CHECK(turn + peer.pulls[0].bytes() == client.call(id).asked - unasked);
    bench.run_until([&] { return client.done(id); });
    check_pattern(3, into);
  }
}

TEST_CASE(
    "replies and appends of about a frame, about two and about what comes unasked are whole") {
  LongBench bench(kMaxFrameBytes, kLarge);
  Connection& client = bench.add_client(kLarge);
  constexpr size_t kFrame = kMaxFrameBytes - kHeaderBytes;
  uint64_t id = 1;
  for (const size_t about : {kJumboFrameBytes, size_t{kUnaskedBytes}, kFrame, 2 * kFrame}) {
    for (const size_t bytes : {about - 64, about - 1, about, about + 1, about + 64}) {
      std::vector<std::byte> into(bytes);
      const CallId sample = order(client, id, into), appended = append(client, id, bytes);
      bench.run_until([&] { return client.done(sample) && client.done(appended); });
      check_pattern(id, into);
      CHECK(bench.handler.appended.back() == id++);
      client.release(sample);
      client.release(appended);
    }
  }
}

}  // namespace drlnet::test
