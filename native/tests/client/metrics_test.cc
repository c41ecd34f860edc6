// The server's statistics: read from other threads, and put together from what clients report.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "client/bench.h"
#include "readings.h"
#include "session/seal.h"
#include "transport/forwarding.h"

namespace drlnet::test {
namespace {

void ping(Client& client, int times) {
  for (int i = 0; i < times; ++i) client.ping();
}

// Says goodbye in place of a client's next frame, or of one some bursts later: what the server does
// by itself with one that was silent for long. The client does not know, and opens the session anew
// when it learns of it.
class LeavingTransport final : public ForwardingTransport {
 public:
  explicit LeavingTransport(std::unique_ptr<Transport> inner)
      : ForwardingTransport(std::move(inner)) {}
  void leave(int bursts = 1) { left_ = bursts; }

  size_t send_burst(std::span<const TxFrame> frames) override {
    if (left_ > 0 && !frames.empty() && --left_ == 0) {
      FrameHeader header;
      std::memcpy(&header, frames[0].data, sizeof header);
      header.kind = FrameKind::bye;
      header.length = 0;
      write_header(frames[0].data, header);
      seal(frames[0]);
    }
    return ForwardingTransport::send_burst(frames);
  }

 private:
  int left_ = 0;
};

}  // namespace

TEST_CASE("any thread may read a server that runs, sleeps, was stopped or never ran") {
  for (const Poll poll : {Poll::block, Poll::adaptive, Poll::busy}) {
    CAPTURE(static_cast<int>(poll));
    Server server(ServerOptions{{"udp://127.0.0.1:0"}, poll, 0, {}, "1.2.3"});
    CHECK(reading<std::string>(server.read_metrics(), "server.version") == "1.2.3");
    std::thread running([&] { server.run(); });
    {
      Client client({server.addresses().front(), "test", kPatienceNs, poll});
      ping(client, 1);
      std::atomic<int> answered = 0;
      std::vector<std::thread> readers;
      for (int reader = 0; reader < 3; ++reader) {
        readers.emplace_back([&] {
          for (int i = 0; i < 50; ++i) {
            answered += has_reading(server.read_metrics(), "peer.test.frames_received");
          }
        });
      }
      ping(client, 200);
      for (std::thread& reader : readers) reader.join();
      CHECK(answered == 150);
    }
    // A thread that asks while it stops is answered too.
    std::thread last([&] {
      for (int i = 0; i < 50; ++i) server.read_metrics();
    });
    server.stop();
    running.join();
    last.join();
    CHECK(reading<double>(server.read_metrics(), "server.uptime_s") > 0);
  }
}

TEST_CASE("latencies of all clients are one, of those that are gone too") {
  RunningServer server;
  const auto latency = [](Client& client) {
    return reading<HistogramReading>(client.stats(), "server.ping.latency");
  };
  Client observer(options_of(server));
  CHECK_FALSE(has_reading(observer.stats(), "server.ping.latency"));
  {
    Client first({server.address(), "first", kPatienceNs, Poll::adaptive});
    Client second({server.address(), "second", kPatienceNs, Poll::adaptive});
    ping(first, 30);
    ping(second, 12);
    first.report({});
    first.report({});  // it replaces the one before
    CHECK(latency(observer).count == 30);
    second.report({});
    const Metrics all = observer.stats();
    CHECK(reading<HistogramReading>(all, "server.ping.latency").count == 42);
    const auto own = reading<HistogramReading>(first.own_metrics(), "ping.latency");
    CHECK(own.buckets == reading<HistogramReading>(all, "client.first.ping.latency").buckets);
    CHECK(own.merged(reading<HistogramReading>(all, "client.second.ping.latency")).buckets ==
          reading<HistogramReading>(all, "transport.udp.ping.latency").buckets);
    CHECK(reading<uint64_t>(all, "client.first.frames_sent") > 30);
  }
  const Metrics later = observer.stats();
  CHECK(reading<HistogramReading>(later, "server.ping.latency").count == 42);
  CHECK_FALSE(has_reading(later, "client.first.ping.latency"));
}

TEST_CASE("a client whose session had ended comes back, and its calls count once") {
  RunningServer server;
  Client observer(options_of(server));
  observer.stats();  // the first of its name
  Client other({server.address(), "other", kPatienceNs, Poll::adaptive});
  Connected connected = connect(server.address());
  auto leaving = std::make_unique<LeavingTransport>(std::move(connected.transport));
  LeavingTransport& transport = *leaving;
  Client client({std::move(leaving), connected.server}, options_of(server));
  const auto counted = [&](const std::string& name) {
    return reading<HistogramReading>(observer.stats(), name).count;
  };
  ping(other, 7);
  other.report({});
  uint64_t pings = 0;
  for (int session = 0; session < 3; ++session) {
    CAPTURE(session);
    ping(client, 10);
    client.report({});
    pings += 10;
    CHECK(counted("server.ping.latency") == 7 + pings);
    CHECK(counted("client.test~2.ping.latency") == pings);
    transport.leave();
    ping(client, 1);
    ++pings;
    CHECK(reading<uint64_t>(client.own_metrics(), "reconnects") == session + 1u);
    CHECK(counted("server.ping.latency") == 7 + pings - 1);  // as last reported
  }
  client.report({});
  const Metrics all = observer.stats();
  const auto of_all = reading<HistogramReading>(all, "server.ping.latency");
  const auto of_other = reading<HistogramReading>(all, "client.other.ping.latency");
  const auto of_client = reading<HistogramReading>(all, "client.test~2.ping.latency");
  CHECK(of_all.buckets == of_other.merged(of_client).buckets);
  CHECK(of_all.sum_ns == of_other.sum_ns + of_client.sum_ns);
}

TEST_CASE("params are published whole, also where the session ends between two chunks") {
  RunningServer server;
  Connected connected = connect(server.address());
  auto leaving = std::make_unique<LeavingTransport>(std::move(connected.transport));
  LeavingTransport& transport = *leaving;
  Client client({std::move(leaving), connected.server}, options_of(server));
  std::vector<std::byte> params(600'000), fetched;  // three chunks
  for (int burst = 1; burst < 12; ++burst) {
    CAPTURE(burst);
    std::ranges::fill(params, std::byte(burst));
    transport.leave(burst);
    const uint64_t version = client.publish(params);
    CHECK(client.fetch(version - 1, fetched) == version);
    CHECK(fetched == params);
  }
  CHECK(reading<uint64_t>(client.own_metrics(), "reconnects") > 2);
}

TEST_CASE("a client that waits for the limiter is seen: why, how often, and how long") {
  RunningServer server;
  LimiterSpec limiter;
  limiter.min_size = 30;
  const TableSpec spec = spec_of(10'000, limiter);
  Client learner({server.address(), "learner", kPatienceNs, Poll::adaptive});
  Client actor({server.address(), "actor", kPatienceNs, Poll::adaptive});
  const uint32_t table = learner.open_table(spec);
  std::vector<std::byte> reply(SampleLayout(spec).total_bytes(4));
  const auto sample = [&] { learner.sample(table, 4, reply, deadline_in(20'000'000)); };
  for (int i = 0; i < 3; ++i) CHECK(error_of(sample).status() == Status::timeout);
  const Metrics waiting = actor.stats();
  CHECK(reading<std::string>(waiting, "peer.learner.waiting_for") == "min_size");
  CHECK(reading<double>(waiting, "peer.learner.waiting_s") >= 0.06);
  CHECK(reading<double>(waiting, "table.replay.limiter_wait_s.min_size") >= 0.06);
  CHECK(reading<uint64_t>(waiting, "table.replay.limiter_waits.min_size") == 1);
  CHECK(reading<std::string>(waiting, "peer.actor.waiting_for").empty());
  actor.open_table(spec);
  StreamWriter writer(actor, table, spec, actor.lease(table, 1), {});
  write(writer, 1, 0, 60);
  writer.flush();
  learner.publish(std::vector<std::byte>(10));
  learner.sample(table, 4, reply, deadline_in(kPatienceNs));
  learner.sample(table, 4, reply, deadline_in(kPatienceNs));
  const Metrics after = actor.stats();
  CHECK(reading<std::string>(after, "peer.learner.waiting_for").empty());
  const double waited_s = reading<double>(after, "peer.learner.limiter_wait_s.min_size");
  CHECK(waited_s >= 0.06);
  CHECK(waited_s == reading<double>(after, "table.replay.limiter_wait_s.min_size"));
  CHECK(reading<uint64_t>(after, "table.replay.limiter_waits.min_size") == 1);
  CHECK(reading<HistogramReading>(after, "table.replay.sampled_age").count == 2);
  CHECK(reading<double>(after, "table.replay.sampled_versions_behind") > 0);
  CHECK(reading<double>(after, "table.replay.effective_items") ==
        doctest::Approx(57).epsilon(0.01));
}

TEST_CASE("a report too long with the session's own figures goes without them") {
  RunningServer server;
  Client client(options_of(server));
  ping(client, 10);
  Metrics most;
  for (size_t i = 0; i < kMaxReportReadings; ++i) most.set("figure." + std::to_string(i), i);
  client.report(most);
  CHECK(metric(client, "client.test.figure.0") == 0);
  CHECK_FALSE(has_reading(client.stats(), "client.test.frames_sent"));
}

TEST_CASE("stats of very many clients leaves out reports that would make it too long") {
  RunningServer server;
  Client reader(options_of(server));
  Metrics longest;
  for (size_t i = 0; i < kMaxReportReadings; ++i) {
    longest.set("figure." + std::to_string(i), std::string(300, 'x'));
  }
  Bytes bytes;
  encode(longest, bytes);
  const size_t each = bytes.size() + kMaxReportReadings * kReadingNameBytes;
  std::vector<std::unique_ptr<Client>> clients;
  const auto join = [&] {
    clients.push_back(std::make_unique<Client>(options_of(server)));
    clients.back()->report(longest);
  };
  while (clients.size() < kMaxReportsBytes / each) join();
  CHECK(metric(reader, "server.reports_left_out") == 0);
  join();
  CHECK(metric(reader, "server.reports_left_out") == 1);
  CHECK(metric(reader, "server.clients") == clients.size() + 1);
  clients.erase(clients.begin());
  CHECK(metric(reader, "server.reports_left_out") == 0);
}

TEST_CASE("a reading of a thousand clients with reports is taken whole") {
  Metrics list, decoded;
  for (uint64_t i = 0; i < 100'000; ++i) list.set("client.actor.figure", i);
  Bytes bytes;
  encode(list, bytes);
  CHECK(decode(bytes, decoded));
  CHECK(decoded.list().size() == 100'000);
}

TEST_CASE("malformed histograms are not taken as metrics") {
  Metrics metrics;
  HistogramReading wrong;
  for (const auto& buckets : {std::vector<std::pair<uint32_t, uint64_t>>{{5, 1}, {4, 1}},
                              {{5, 1}, {5, 1}},
                              {{Histogram::kBuckets, 1}}}) {
    wrong.buckets = buckets;
    Metrics list, decoded;
    list.set("ping.latency", wrong);
    Bytes bytes;
    encode(list, bytes);
    CHECK_FALSE(decode(bytes, decoded));
  }
}

}  // namespace drlnet::test
