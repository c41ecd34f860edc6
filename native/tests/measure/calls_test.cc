#include "measure/calls.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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
  for (const double q : {0.0, 0.5, 0.9, 0.95, 0.99, 0.999}) {
    CAPTURE(q);
    const auto exact = static_cast<double>(raw[Histogram::rank_of(q, raw.size())]);
    CHECK(std::abs(latency.percentile_ns(q) - exact) <= 0.01 * exact);
  }
}

}  // namespace drlnet::test
