// What a client's session takes for lost, and asks for again before a timeout.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "session/bench.h"
#include "session/client/overtaking.h"

namespace drlnet::test {
namespace {

uint64_t reading(const Connection& client, const std::string& name) {
  Metrics metrics;
  client.read_metrics(metrics, 0);
  for (const auto& [key, value] : metrics.list()) {
    if (key == name) return std::get<uint64_t>(value);
  }
  FAIL("no metric ", name);
  return 0;
}

// Drops the frames of these numbers, of those that it sends or receives.
class Dropping final : public ForwardingTransport {
 public:
  Dropping(std::unique_ptr<Transport> inner, std::set<uint64_t> sent, std::set<uint64_t> received)
      : ForwardingTransport(std::move(inner)),
        sent_(std::move(sent)),
        received_(std::move(received)) {}

  size_t send_burst(std::span<const TxFrame> frames) override {
    for (const TxFrame& frame : frames) {
      if (sent_.erase(++frames_sent_) == 0) CHECK(inner().send_burst({&frame, 1}) == 1);
    }
    return frames.size();
  }
  std::span<const RxFrame> recv_burst() override {
    kept_.clear();
    for (const RxFrame& frame : inner().recv_burst()) {
      if (received_.erase(++frames_received_) == 0) kept_.push_back(frame);
    }
    return kept_;
  }
  bool reliable() const override { return false; }

 private:
  std::set<uint64_t> sent_, received_;
  uint64_t frames_sent_ = 0, frames_received_ = 0;
  std::vector<RxFrame> kept_;
};

// A client whose frames are counted from the moment when its session is open.
struct DroppingBench : Bench {
  DroppingBench(const std::set<uint64_t>& sent, const std::set<uint64_t>& received)
      : Bench("memory:", 0, 1) {
    open();
    const uint64_t frames_sent = reading(*clients[0], "frames_sent");
    const uint64_t frames_received = reading(*clients[0], "frames_received");
    Connected connected = connect(address);
    const auto later = [](const std::set<uint64_t>& numbers, uint64_t by) {
      std::set<uint64_t> moved;
      for (const uint64_t number : numbers) moved.insert(number + by);
      return moved;
    };
    connected.transport = std::make_unique<Dropping>(
        std::move(connected.transport), later(sent, frames_sent), later(received, frames_received));
    clients.clear();
    clients.push_back(std::make_unique<Connection>(std::move(connected), "test"));
    open();
  }
};

}  // namespace

TEST_CASE("what is overtaken is lost after a while, and what comes meanwhile is not") {
  Overtaking line;
  line.look(1000, 50);
  CHECK(!line.overtaken(1));
  line.came(5);
  line.look(1000, 50);
  CHECK(line.overtaken(4));
  CHECK(!line.overtaken(5));
  CHECK(!line.lost(4));
  CHECK(line.decided_ns() == 1050);
  line.came(9);
  line.look(1049, 50);
  CHECK(!line.lost(4));
  line.look(1050, 50);
  CHECK(line.lost(4));
  CHECK(!line.lost(5));      // overtaken later than that
  CHECK(line.overtaken(8));  // by 9, from now on
  CHECK(line.decided_ns() == 1100);
  line.came(3);  // an old one tells nothing
  line.look(1100, 50);
  CHECK(line.lost(8));
  CHECK(!line.overtaken(100));
}

// Whether these frames, of those that a client sends and receives, were lost without a timeout.
bool recovers_once(const std::set<uint64_t>& sent, const std::set<uint64_t>& received) {
  DroppingBench bench(sent, received);
  bench.handler.longest_echo = sizeof(uint64_t);
  Connection& client = *bench.clients[0];
  std::vector<std::byte> into(60'000);
  std::vector<CallId> calls;
  const uint64_t began_ns = now_ns();
  for (uint64_t id = 1; id <= 4; ++id) calls.push_back(append(client, id, 20'000));
  calls.push_back(order(client, 7, into));
  bench.run_until([&] {
    return std::ranges::all_of(calls, [&](const CallId& id) { return client.done(id); });
  });
  const uint64_t took_ns = now_ns() - began_ns;
  check_pattern(7, into);
  CHECK(bench.handler.appended == std::vector<uint64_t>{1, 2, 3, 4});
  CHECK(reading(client, "retransmissions") + reading(client, "repulls") > 0);
  return reading(client, "timeouts") == 0 && took_ns < 15'000'000;  // a timeout takes 20 ms
}

// In one of ten times: a busy machine may stop us for a timeout.
bool recovers(const std::set<uint64_t>& sent, const std::set<uint64_t>& received) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (recovers_once(sent, received)) return true;
  }
  return false;
}

TEST_CASE("a lost part, of a request or a reply, is asked for again without a timeout") {
  // The last ones have none behind them to overtake them.
  for (const uint64_t lost : {1u, 2u, 5u, 9u, 10u}) {
    CAPTURE(lost);
    CHECK(recovers({lost}, {}));
    CHECK(recovers({}, {lost}));
  }
}

TEST_CASE("a lost answer is asked for again without a timeout, though the server has the request") {
  // Behind a request that is not whole, the others are acknowledged first and answered later.
  for (uint64_t lost = 1; lost <= 20; ++lost) {
    CAPTURE(lost);
    CHECK(recovers({1}, {lost}));
  }
}

TEST_CASE("long replies recover from many losses, most of them without a timeout") {
  Bench bench("memory:", 0.05, 21);
  bench.open();
  Connection& client = *bench.clients[0];
  std::vector<std::byte> into(4'000'000);
  for (uint64_t id = 1; id <= 5; ++id) {
    const CallId call = order(client, id, into);
    bench.run_until([&] { return client.done(call); });
    check_pattern(id, into);
    client.release(call);
  }
  CHECK(reading(client, "repulls") > 50);
  CHECK(reading(client, "timeouts") < reading(client, "repulls") / 4);
}

}  // namespace drlnet::test
