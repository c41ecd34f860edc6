#include "measure/calls.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "client/bench.h"
#include "readings.h"

namespace drlnet::test {

// A slow network, so that what the loop takes beside a call is nothing, and one that loses frames,
// so that latencies have two magnitudes.
TEST_CASE("a client's latencies agree within 1% with the raw ones of the very same calls") {
  constexpr uint64_t kDelayNs = 150'000;
  RunningServer server;
  Connected connected = connect(server.address());
  const FaultPlan plan{0.01, 0, 0, kDelayNs, 7};
  connected.transport =
      std::make_unique<FaultyTransport>(std::move(connected.transport), plan, plan);
  Client client(std::move(connected), options_of(server));
  std::vector<uint64_t> raw(1500);
  REQUIRE(measure::pings(client, 100, {raw, 60'000'000'000}) == raw.size());
  const auto latency = reading<HistogramReading>(client.own_metrics(), "ping.latency");
  REQUIRE(latency.count == raw.size());
  std::ranges::sort(raw);
  CHECK(raw.front() >= 2 * kDelayNs);
  CHECK(raw.back() >= 20'000'000);  // one that was sent again
  // Sums are exact: what the loop takes beside a call.
  const auto count = static_cast<double>(raw.size());
  const double mean = static_cast<double>(latency.sum_ns) / count;
  const double beside = std::accumulate(raw.begin(), raw.end(), 0.0) / count - mean;
  CHECK(beside >= 0);
  CHECK(beside <= 0.01 * mean);
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

}  // namespace drlnet::test
