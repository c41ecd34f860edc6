// Sessions end to end, client and server in one thread: over the in-memory transport and UDP, bare
// and through a network that drops, doubles and reorders 5% of all frames each way.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <deque>
#include <fstream>

#include "base/random.h"
#include "session/bench.h"
#include "session/keys/pairs.h"
#include "wire/messages.h"

namespace drlnet::test {
namespace {

// Appends of all sizes and samples of all sizes, interleaved, every one checked.
void exercise(Bench& bench, int rounds, uint64_t seed) {
  Random random(seed);
  bench.open();
  Connection& client = *bench.clients[0];
  uint64_t next_id = 1;
  std::deque<CallId> appends;
  struct Ordered {
    CallId call;
    uint64_t id;
    std::vector<std::byte> into;
  };
  std::deque<Ordered> orders;
  for (int round = 0; round < rounds; ++round) {
    bench.run_until([&] { return client.has_room(Operation::append); });
    const size_t limit = size_t{1} << random.below(18);
    appends.push_back(append(client, next_id++, random.below(limit + 1)));
    bench.run_until([&] { return client.has_room(Operation::sample); });
    orders.push_back({{}, next_id, std::vector<std::byte>(1 + random.below(1 << 19))});
    orders.back().call = order(client, next_id++, orders.back().into);
    while (appends.size() > 4) {
      bench.run_until([&] { return client.done(appends.front()); });
      client.release(appends.front());
      appends.pop_front();
    }
    while (orders.size() > 5) {
      bench.run_until([&] { return client.done(orders.front().call); });
      CHECK(client.call(orders.front().call).status == Status::ok);
      check_pattern(orders.front().id, orders.front().into);
      client.release(orders.front().call);
      orders.pop_front();
    }
  }
  for (const CallId& id : appends) bench.run_until([&] { return client.done(id); });
  for (const Ordered& o : orders) {
    bench.run_until([&] { return client.done(o.call); });
    check_pattern(o.id, o.into);
  }
  // Nothing lost, nothing applied twice, nothing out of order.
  REQUIRE(bench.handler.appended.size() == static_cast<size_t>(rounds));
  for (int i = 0; i < rounds; ++i) {
    REQUIRE(bench.handler.appended[static_cast<size_t>(i)] == static_cast<uint64_t>(2 * i + 1));
  }
}

// While it lives, this process may map that many bytes more.
class Room {
 public:
  explicit Room(rlim_t bytes) {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    REQUIRE(pages > 0);
    getrlimit(RLIMIT_AS, &former_);
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes;
    const rlimit less{most, former_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &less) == 0);
  }
  ~Room() { setrlimit(RLIMIT_AS, &former_); }

 private:
  rlimit former_{};
};

}  // namespace

TEST_CASE("appends and samples of every size arrive whole, once and in order") {
  for (const char* listen_on : {"memory:", "udp://127.0.0.1:0"}) {
    CAPTURE(listen_on);
    Bench bench(listen_on, 0, 1);
    exercise(bench, 60, 3);
  }
}

TEST_CASE("nothing is lost and nothing applied twice at 5% drop, duplicate and reorder") {
  for (const uint64_t seed : {11, 12, 13}) {
    for (const char* listen_on : {"memory:", "udp://127.0.0.1:0"}) {
      CAPTURE(seed);
      CAPTURE(listen_on);
      Bench bench(listen_on, 0.05, seed * 100);
      exercise(bench, 25, seed);
    }
  }
}

TEST_CASE("what the link alters is not believed, wherever it is received") {
  // A single seed may alter none of its few frames to the server, so all seeds count together.
  uint64_t at_server = 0, at_client = 0;
  for (const uint64_t seed : {31, 32, 33}) {
    CAPTURE(seed);
    Bench bench("udp://127.0.0.1:0", 0, seed * 100, 0.05);
    exercise(bench, 25, seed);
    Metrics server, client;
    bench.sessions.read_metrics(server, 0);
    bench.clients[0]->read_metrics(client, 0);
    const auto reading = [](const Metrics& metrics, std::string_view wanted) {
      for (const auto& [name, value] : metrics.list()) {
        if (name == wanted) return std::get<uint64_t>(value);
      }
      return uint64_t{0};
    };
    at_server += reading(server, "server.drops.checksum");
    at_client += reading(client, "altered_frames");
    CHECK(bench.clients[0]->state() == Connection::State::open);
  }
  CHECK(at_server > 0);
  CHECK(at_client > 0);
}

TEST_CASE("hellos without end leave a bounded number of sessions, and others' alone") {
  Bench bench("udp://127.0.0.1:0", 0, 1);
  bench.open();
  Connection& honest = *bench.clients[0];
  std::vector<std::byte> into(5000);
  const auto asks = [&](uint64_t id) {
    const CallId call = order(honest, id, into);
    bench.run_until([&] { return honest.done(call); });
    check_pattern(id, into);
    honest.release(call);
  };
  asks(1);
  const size_t most = bench.sessions.limits().half_open;
  for (size_t i = 0; i < most + 300; ++i) {
    Connection stranger(connect(bench.address), "stranger");
    stranger.progress();  // says hello, from a port of its own
    bench.sessions.poll();
  }
  asks(2);
  const auto reading = [&](std::string_view wanted) {
    Metrics metrics;
    bench.sessions.read_metrics(metrics, 0);
    honest.read_metrics(metrics, 0);
    for (const auto& [name, value] : metrics.list()) {
      if (name == wanted) return std::get<uint64_t>(value);
    }
    return uint64_t{0};
  };
  CHECK(reading("reconnects") == 0);
  CHECK(reading("server.clients") == 1);
  CHECK(reading("server.half_open") == most);
  CHECK(reading("server.refused.half_open") >= 300);
  // One whose session was ended before its first request says hello anew.
  Connection& late = bench.add_client();
  bench.open();
  for (size_t i = 0; i < most; ++i) {
    Connection stranger(connect(bench.address), "stranger");
    stranger.progress();
    bench.sessions.poll();
  }
  const CallId call = order(late, 3, into);
  bench.run_until([&] { return late.done(call); });
  check_pattern(3, into);
}

TEST_CASE("a waiting append is pending, blocks its lane alone, and runs later") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  bench.handler.closed = true;
  const CallId first = append(client, 1, 100), second = append(client, 2, 100'000);
  bench.run_until([&] { return client.call(first).state == Call::State::pending; });
  CHECK(client.call(first).wait == 3);
  std::vector<std::byte> into(50'000);
  const CallId sample = order(client, 9, into);
  bench.run_until([&] { return client.done(sample); });
  check_pattern(9, into);
  CHECK(!client.done(second));
  bench.handler.closed = false;
  // Waiting requests are tried again when another one ran.
  client.release(sample);
  const CallId nudge = order(client, 10, std::span(into).first(10));
  bench.run_until([&] { return client.done(first) && client.done(second) && client.done(nudge); });
  CHECK(bench.handler.appended == std::vector<uint64_t>{1, 2});
}

TEST_CASE("a forgotten session is opened anew and its requests are answered") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  bench.handler.closed = true;
  const CallId held = append(client, 5, 10);
  bench.run_until([&] { return client.call(held).state == Call::State::pending; });
  std::vector<std::byte> into(200'000);
  const CallId sample = order(client, 6, into);
  bench.sessions.expire(now_ns() + Sessions::kSilenceNs + 1'000'000'000);
  CHECK(bench.handler.ended_count == 1);
  bench.handler.closed = false;
  bench.run_until([&] { return client.done(held) && client.done(sample); });
  check_pattern(6, into);
  CHECK(bench.handler.appended == std::vector<uint64_t>{5});
}

TEST_CASE("a client has not been silent while its server was stopped") {
  Bench bench("memory:", 0, 1);
  bench.open();
  const CallId call = append(*bench.clients[0], 1, 10);
  bench.run_until([&] { return bench.clients[0]->done(call); });
  const uint64_t stopped = 2 * Sessions::kSilenceNs, later = now_ns() + stopped;
  bench.sessions.stood_still(stopped, later);
  bench.sessions.expire(later + Sessions::kSilenceNs / 2);
  CHECK(bench.handler.ended_count == 0);
  bench.sessions.expire(later + 2 * Sessions::kSilenceNs);
  CHECK(bench.handler.ended_count == 1);
}

TEST_CASE("a small request overtakes another client's 25 MB reply") {
  Bench bench("memory:", 0, 1);
  bench.add_client();
  bench.open();
  std::vector<std::byte> into(25'000'000);
  const CallId large = order(*bench.clients[0], 4, into);
  for (int i = 0; i < 50; ++i) {
    Call& call = bench.clients[1]->begin(Operation::ping);
    const CallId ping = bench.clients[1]->submit(call);
    int rounds = 0;
    bench.run_until([&] {
      ++rounds;
      return bench.clients[1]->done(ping);
    });
    CHECK(rounds < 5);
    CHECK(!bench.clients[0]->done(large));
    bench.clients[1]->release(ping);
  }
  bench.run_until([&] { return bench.clients[0]->done(large); });
  check_pattern(4, into);
}

TEST_CASE("an abandoned reply is received and thrown away") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  {
    std::vector<std::byte> into(300'000);
    const CallId id = order(client, 1, into);
    bench.run_until([&] { return client.call(id).got > 0; });
    client.abandon(id);
  }
  std::vector<std::byte> into(300'000);
  const CallId id = order(client, 2, into);
  bench.run_until([&] { return client.done(id); });
  check_pattern(2, into);
}

TEST_CASE("a client for which the machine has no memory is told so, and the others go on") {
  const Pairs pairs;
  for (const bool sealed : {false, true}) {
    CAPTURE(sealed);
    Bench bench("udp://127.0.0.1:0", 0, 1, 0, sealed ? pairs.store() : nullptr,
                sealed ? std::optional(pairs.key(Role::actor)) : std::nullopt);
    const auto ping = [&](Connection& client) {
      const CallId id = client.submit(client.begin(Operation::ping));
      bench.run_until([&] { return client.done(id); });
      std::string cause, remedy;
      if (client.call(id).status != Status::ok) {
        REQUIRE(decode_error(client.call(id).result(), cause, remedy));
        CHECK(client.call(id).status == Status::server_full);
        CHECK(remedy.starts_with("end some of its clients"));
      }
      client.release(id);
      return cause;
    };
    Connection& late = bench.add_client();
    bench.open();
    CHECK(ping(*bench.clients[0]) == "");
    {
      const Room room(4 << 20);
      CHECK(ping(late).ends_with("bytes of memory for one more client of the server"));
      CHECK(ping(*bench.clients[0]) == "");
    }
    CHECK(ping(late) == "");
    CHECK(bench.sessions.peers().size() == 2);
  }
}

TEST_CASE("another protocol version is refused with a remedy") {
  Bench bench("memory:", 0, 1);
  Connected raw = connect(bench.address);
  auto frames = raw.transport->reserve(1);
  FrameHeader header;
  header.kind = FrameKind::hello;
  header.version = 9;
  std::memset(frames[0].data, 0, 1232);
  write_header(frames[0].data, header);
  frames[0].length = 1232;
  frames[0].to = raw.server;
  raw.transport->send_burst(frames.first(1));
  bench.sessions.poll();
  const auto answer = raw.transport->recv_burst();
  REQUIRE(answer.size() == 1);
  REQUIRE(!parse_frame(answer[0].data, header));
  CHECK(header.kind == FrameKind::refuse);
  CHECK(header.status == static_cast<uint16_t>(Status::protocol));
}

}  // namespace drlnet::test
