// A server that reads its state: what its clients are told, and that they go on once it has.
#include <doctest/doctest.h>

#include <string>

#include "session/bench.h"
#include "session/keys/pairs.h"
#include "session/seal.h"

namespace drlnet::test {
namespace {

constexpr char kUdp[] = "udp://127.0.0.1:0";

// One hello of a stranger, and what comes back for it: bytes and frames.
struct Exchange {
  size_t sent = 0, received = 0, frames = 0;
};

Exchange exchange(Bench& bench, FrameKind kind, uint32_t payload_bytes, uint32_t frame_bytes) {
  Connected connected = connect(bench.address);
  FrameHeader header;
  header.kind = kind;
  header.frame_bytes = kMinFrameBytes;
  header.length = payload_bytes;
  TxFrame& frame = connected.transport->reserve(1)[0];
  frame.to = connected.server;
  frame.apart = true;
  frame.loans.clear();
  std::memset(frame.data, 0, frame_bytes);
  write_header(frame.data, header);
  frame.length = frame_bytes;
  seal(frame);
  REQUIRE(connected.transport->send_burst({&frame, 1}) == 1);
  Exchange result{.sent = frame_bytes};
  run_until([&] { return result.frames > 0; },
            [&] {
              bench.sessions.poll();
              for (const RxFrame& answer : connected.transport->recv_burst()) {
                FrameHeader told;
                REQUIRE_FALSE(parse_frame(answer.data, told));
                CHECK(told.kind == FrameKind::refuse);
                CHECK(told.status == static_cast<uint16_t>(Status::loading));
                result.received += answer.data.size();
                ++result.frames;
              }
            });
  return result;
}

}  // namespace

TEST_CASE("a client of a server that reads its state is told how far it is, and waits") {
  const Pairs pairs;
  for (const bool keys : {false, true}) {
    CAPTURE(keys);
    Bench bench(kUdp, 0, 1, 0, keys ? pairs.store() : nullptr,
                keys ? std::optional(pairs.key(Role::learner)) : std::nullopt);
    Connection& client = *bench.clients[0];
    const auto told = [&] { return client.loading(now_ns()); };
    bench.sessions.set_loading("reading its state: 1.00 of 7.00 GB");
    const CallId id = append(client, 5, 3000);  // asked for before there is a session
    bench.run_until([&] { return !told().empty(); });
    CHECK(told() == "the server is reading its state: 1.00 of 7.00 GB");
    bench.sessions.set_loading("reading its state: 2.00\x1b of 7.00 GB");
    bench.run_until(
        [&] { return told() == "the server is reading its state: 2.00\\x1b of 7.00 GB"; });
    CHECK(client.state() == Connection::State::hello);
    CHECK(bench.sessions.peers().empty());  // nothing is kept of those that ask
    bench.sessions.set_loading("");
    bench.run_until([&] { return client.done(id); });
    CHECK(told().empty());
    CHECK(bench.handler.appended == std::vector<uint64_t>{5});
  }
}

TEST_CASE("what it says of itself is believed for as long as it says it") {
  Bench bench(kUdp, 0, 1);
  Connection& client = *bench.clients[0];
  bench.sessions.set_loading("reading its state");
  bench.run_until([&] { return !client.loading(now_ns()).empty(); });
  CHECK_FALSE(client.loading(now_ns() + 2'000'000'000).empty());
  CHECK(client.loading(now_ns() + 4'000'000'000).empty());  // it is silent, and has died perhaps
}

TEST_CASE("a server that reads its state sends no address more than it has sent") {
  const Pairs pairs;
  for (const bool keys : {false, true}) {
    Bench bench(kUdp, 0, 1, 0, keys ? pairs.store() : nullptr);
    bench.clients.clear();
    bench.sessions.set_loading(std::string(2000, 'x'));
    const Exchange asked = keys ? exchange(bench, FrameKind::keyed_hello, sizeof(KeyedHello),
                                           kHeaderBytes + sizeof(KeyedHello))
                                : exchange(bench, FrameKind::hello, sizeof(Hello), kMinFrameBytes);
    CHECK(asked.frames == 1);
    CHECK(asked.received <= asked.sent);
    CHECK(bench.sessions.peers().empty());
  }
}

}  // namespace drlnet::test
