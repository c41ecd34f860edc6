#include "measure/calls.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "client/bench.h"
#include "patience.h"
#include "readings.h"

namespace drlnet::test {

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kDelayNs = 1'500'000;  // for what it takes beside a call, too, takes longer
#else
constexpr uint64_t kDelayNs = 150'000;
#endif

// The same calls, by the client's own histogram and one by one.
struct Pings {
  std::vector<uint64_t> raw = std::vector<uint64_t>(1500);  // in order
  HistogramReading latency;

  // Over a slow network, so that what the loop takes beside a call is nothing, and one that loses
  // frames, so that latencies have two magnitudes.
  Pings() {
    RunningServer server;
    Connected connected = connect(server.address());
    const FaultPlan plan{0.01, 0, 0, kDelayNs, 7};
    connected.transport =
        std::make_unique<FaultyTransport>(std::move(connected.transport), plan, plan);
    Client client(std::move(connected), options_of(server));
    REQUIRE(measure::pings(client, 100, {raw, 60'000'000'000}) == raw.size());
    latency = reading<HistogramReading>(client.own_metrics(), "ping.latency");
    REQUIRE(latency.count == raw.size());
    std::ranges::sort(raw);
  }
  double mean_ns() const { return static_cast<double>(latency.sum_ns) / count(); }
  // Sums are exact: what the loop takes beside a call.
  double beside_ns() const {
    return std::accumulate(raw.begin(), raw.end(), 0.0) / count() - mean_ns();
  }

 private:
  double count() const { return static_cast<double>(raw.size()); }
};

}  // namespace

TEST_CASE("a client's latencies agree within 1% with the raw ones of the very same calls") {
  std::optional<Pings> pings(std::in_place);
  // A machine that halts us between an answer and the clock adds to what is beside: once more then.
  run_until([&] { return pings->beside_ns() <= 0.01 * pings->mean_ns(); },
            [&] { pings.emplace(); });
  const auto& [raw, latency] = *pings;
  const double beside = pings->beside_ns();
  CHECK(beside >= 0);
  CHECK(raw.front() >= 2 * kDelayNs);
  CHECK(raw.back() >= 2 * raw.front());  // one that was sent again
  for (const double q : {0.01, 0.5, 0.9, 0.95, 0.99}) {
    CAPTURE(q);
    // A call may be interrupted after its answer has come, which moves each one below by a rank: on
    // a busy machine so may one in a hundred.
    const uint64_t rank = Histogram::rank_of(q, raw.size());
    const uint64_t moved = rank - std::min(rank, 2 + raw.size() / 100);
    CHECK(latency.percentile_ns(q) >= 0.99 * static_cast<double>(raw[moved]) - beside);
    CHECK(latency.percentile_ns(q) <= 1.01 * static_cast<double>(raw[rank + 2]));
  }
}

TEST_CASE("appends that are late leave the schedule as it is, and are late in what they report") {
  RunningServer server;
  Connected connected = connect(server.address());
  const FaultPlan plan{0, 0, 0, kDelayNs, 7};
  connected.transport =
      std::make_unique<FaultyTransport>(std::move(connected.transport), plan, plan);
  Client client(std::move(connected), options_of(server));
  TableSpec spec = spec_of(1024);
  spec.columns = {{"row", DataType::u8, {40}}};
  spec.item.views = {{"row", 0, 0, 0, Pad::repeat, Align::anchor}};
  const uint32_t table = client.open_table(spec);
  StreamWriter writer(client, table, spec, client.lease(table, 1), {2, 1'000'000'000'000});
  const std::vector<std::byte> row(40);
  measure::Schedule schedule{kDelayNs};  // each takes two of them at least
  std::vector<uint64_t> latencies(20), since_due(20);
  for (uint64_t before : {0, 20}) {  // the schedule goes on from one loop to the next
    REQUIRE(measure::paced_appends(writer, row, schedule, since_due, {latencies, kPatienceNs}) ==
            20);
    CHECK(std::ranges::min(latencies) >= 2 * kDelayNs);
    for (uint64_t i = 0; i < 20; ++i) CHECK(since_due[i] >= (before + i + 2) * kDelayNs);
  }
}

}  // namespace drlnet::test
