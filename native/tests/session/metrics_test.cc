// What both sides of a session measure of it.
#include <doctest/doctest.h>

#include "readings.h"
#include "session/bench.h"

namespace drlnet::test {
namespace {

Metrics read(const Bench& bench) {
  Metrics metrics;
  bench.sessions.read_metrics(metrics, now_ns());
  return metrics;
}
Metrics read(const Connection& client) {
  Metrics metrics;
  client.read_metrics(metrics, now_ns());
  return metrics;
}

void spin(uint64_t ns) {
  for (const uint64_t until = now_ns() + ns; now_ns() < until;) spin_pause();
}

void ping(Bench& bench, Connection& client, size_t bytes = 0) {
  Call& call = client.begin(Operation::ping);
  call.body.resize(bytes);
  const CallId id = client.submit(call);
  bench.run_until([&] { return client.done(id); });
  client.release(id);
}

}  // namespace

TEST_CASE("the time of rounds that had something to do is counted, that of others is not") {
  Bench bench("memory:", 0, 1);
  bench.open();
  bench.sessions.poll();
  const auto busy_s = [&] { return reading<double>(read(bench), "server.busy_s"); };
  const double at_first = busy_s();
  const uint64_t idle_from = now_ns();
  while (now_ns() < idle_from + 5'000'000) bench.sessions.poll();
  CHECK(busy_s() == at_first);
  constexpr int kPings = 5;
  constexpr uint64_t kWorkNs = 2'000'000;
  bench.handler.work = [] { spin(kWorkNs); };
  const uint64_t started = now_ns();
  for (int i = 0; i < kPings; ++i) ping(bench, *bench.clients[0]);
  bench.sessions.poll();
  const double elapsed_s = static_cast<double>(now_ns() - started) / 1e9;
  CHECK(busy_s() - at_first >= kPings * kWorkNs / 1e9);
  CHECK(busy_s() - at_first <= elapsed_s);
  // While a round is under way its time counts already.
  double within = 0;
  bench.handler.work = [&] {
    spin(kWorkNs);
    within = busy_s();
  };
  ping(bench, *bench.clients[0]);
  bench.sessions.poll();
  CHECK(busy_s() >= within);
}

TEST_CASE("a peer says what it waits for, and how long it has in all") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  WaitTimes of_table;
  const auto waited_s = [&](const std::string& prefix) {
    Metrics metrics = read(bench);
    of_table.read_times("table.", metrics, now_ns());
    return reading<double>(metrics, prefix + "limiter_wait_s.inserts_limit");
  };
  ping(bench, client, 100);
  CHECK(reading<std::string>(read(bench), "peer.test.waiting_for").empty());
  CHECK(reading<double>(read(bench), "peer.test.waiting_s") == 0);
  bench.handler.closed = true;
  bench.handler.waits = &of_table;
  const CallId held = append(client, 1, 100);
  bench.run_until([&] { return client.call(held).state == Call::State::pending; });
  spin(3'000'000);
  CHECK(reading<std::string>(read(bench), "peer.test.waiting_for") == "inserts_limit");
  CHECK(reading<double>(read(bench), "peer.test.waiting_s") >= 0.003);
  CHECK(waited_s("peer.test.") >= 0.003);
  CHECK(waited_s("table.") >= 0.003);
  bench.handler.closed = false;
  ping(bench, client);  // waiting requests are tried again when another one ran
  bench.run_until([&] { return client.done(held); });
  const double in_all = waited_s("peer.test.");
  CHECK(in_all >= 0.003);
  spin(1'000'000);
  CHECK(waited_s("peer.test.") == in_all);
  CHECK(waited_s("table.") == in_all);
  CHECK(reading<std::string>(read(bench), "peer.test.waiting_for").empty());
  // A wait ends with its session.
  client.release(held);
  bench.handler.closed = true;
  const CallId lost = append(client, 2, 100);
  bench.run_until([&] { return client.call(lost).state == Call::State::pending; });
  bench.sessions.expire(now_ns() + 2 * Sessions::kSilenceNs);
  const double ended = waited_s("table.");
  spin(1'000'000);
  CHECK(waited_s("table.") == ended);
}

TEST_CASE("both sides count the same frames, and a transport those of clients that are gone") {
  Bench bench("udp://127.0.0.1:0", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  const auto sent = [&](const std::string& name) { return reading<uint64_t>(read(client), name); };
  const auto got = [&](const std::string& name) { return reading<uint64_t>(read(bench), name); };
  ping(bench, client, 100);
  // Hellos and welcomes come before there is a session to count them.
  const uint64_t hello_frames = sent("frames_sent") - got("peer.test.frames_received");
  const uint64_t welcome_bytes = sent("bytes_received") - got("peer.test.bytes_sent");
  for (int i = 0; i < 20; ++i) ping(bench, client, 100);
  std::vector<std::byte> into(100'000);
  const CallId sample = order(client, 4, into);
  bench.run_until([&] { return client.done(sample); });
  CHECK(sent("frames_sent") - hello_frames == got("peer.test.frames_received"));
  CHECK(sent("bytes_received") - welcome_bytes == got("peer.test.bytes_sent"));
  CHECK(got("peer.test.bytes_sent") > 100'000);
  CHECK(got("transport.udp.clients") == 1);
  const uint64_t bytes = got("transport.udp.bytes_sent");
  CHECK(bytes == got("peer.test.bytes_sent"));
  bench.sessions.expire(now_ns() + 2 * Sessions::kSilenceNs);
  CHECK(got("transport.udp.clients") == 0);
  CHECK(got("transport.udp.bytes_sent") == bytes);
  CHECK_FALSE(has_reading(read(bench), "peer.test.bytes_sent"));
  const auto of_kind = reading<HistogramReading>(read(bench), "transport.udp.ping.handling");
  CHECK(of_kind.buckets == reading<HistogramReading>(read(bench), "server.ping.handling").buckets);
  CHECK(of_kind.count == 21);
}

TEST_CASE("a wait for credit or window is counted with its time; small calls have none") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  const auto waits = [&] { return reading<uint64_t>(read(client), "window_waits"); };
  const auto waited_s = [&] { return reading<double>(read(client), "window_wait_s"); };
  for (int i = 0; i < 20; ++i) ping(bench, client, 100);
  CHECK(waits() == 0);
  CHECK(waited_s() == 0);
  const uint64_t window = reading<uint64_t>(read(client), "window_bytes");
  const CallId large = append(client, 1, window + 20'000);
  spin(2'000'000);
  bench.run_until([&] { return client.done(large); });
  client.release(large);
  CHECK(waits() == 1);
  CHECK(waited_s() >= 0.0);
  const double before = waited_s();
  const uint64_t pull_window = reading<uint64_t>(read(client), "pull_window_bytes");
  std::vector<std::byte> into(2 * pull_window);
  const CallId reply = order(client, 2, into);
  bench.run_until([&] { return client.call(reply).got > 0; });
  for (int i = 0; i < 3; ++i) client.progress();
  spin(2'000'000);  // the server is slow, the window full
  CHECK(waited_s() - before >= 0.002);
  bench.run_until([&] { return client.done(reply); });
  client.progress();
  CHECK(waits() >= 2);
  const double after = waited_s();
  spin(1'000'000);
  CHECK(waited_s() == after);
}

TEST_CASE("what was asked for and is unsent counts as outstanding") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  const auto outstanding = [&] {
    return reading<uint64_t>(read(bench), "peer.test.outstanding_reply_bytes");
  };
  std::vector<std::byte> into(1'000'000);
  const CallId reply = order(client, 4, into);
  bench.run_until([&] { return client.call(reply).got > 0; });
  client.progress();
  bench.sessions.poll();
  CHECK(outstanding() > 0);
  bench.run_until([&] { return client.done(reply); });
  CHECK(outstanding() == 0);
}

}  // namespace drlnet::test
