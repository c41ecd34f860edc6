// Long replies leave their server frame by frame where bursts are cheap, else all at once.
#include "session/bench.h"
#include "transport/forwarding.h"

namespace drlnet::test {
namespace {

class CountedBursts final : public ForwardingTransport {
 public:
  CountedBursts(std::unique_ptr<Transport> inner, bool cheap)
      : ForwardingTransport(std::move(inner)), cheap_(cheap) {}

  std::vector<size_t> bursts;  // frames in each

  size_t send_burst(std::span<const TxFrame> frames) override {
    bursts.push_back(frames.size());
    return ForwardingTransport::send_burst(frames);
  }
  bool bursts_are_cheap() const override { return cheap_; }

 private:
  bool cheap_;
};

// How many frames each burst had of a reply that takes four.
std::vector<size_t> bursts_of_a_reply(bool cheap) {
  TestHandler handler;
  Sessions sessions(handler, 77);
  auto transport = std::make_unique<CountedBursts>(listen("memory:"), cheap);
  CountedBursts& counted = *transport;
  Connection client(connect(transport->local_address()), "test");
  sessions.add_listener(std::move(transport));
  const auto run_until = [&](auto condition) {
    const uint64_t deadline = now_ns() + 60'000'000'000;
    while (!condition()) {
      client.progress();
      sessions.poll();
      REQUIRE(now_ns() < deadline);
    }
  };
  run_until([&] { return client.state() == Connection::State::open; });
  std::vector<std::byte> reply(3 * kMaxFrameBytes + 1000);
  counted.bursts.clear();
  const CallId id = order(client, 9, reply);
  run_until([&] { return client.done(id); });
  check_pattern(9, reply);
  return counted.bursts;
}

}  // namespace

TEST_CASE("where bursts are cheap the first frames of a reply wait for no later ones") {
  CHECK(bursts_of_a_reply(true) == std::vector<size_t>{1, 1, 1, 1});
  CHECK(bursts_of_a_reply(false) == std::vector<size_t>{4});
}

}  // namespace drlnet::test
