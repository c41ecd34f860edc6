#include "measure/open_loop.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "client/bench.h"

namespace drlnet::test {
namespace {

using measure::Offered;
using measure::OpenLoop;

constexpr uint64_t kDelayNs = 5'000'000, kTripNs = 2 * kDelayNs;

// A run's figures. The limit is far beyond what a busy machine adds.
struct Run {
  explicit Run(size_t count) : latencies(count), late(count) {}
  Offered of(OpenLoop& load, double per_second, uint64_t limit_ns = 20'000'000'000) {
    return load.run(per_second, limit_ns, 3, latencies, late);
  }
  std::vector<uint64_t> latencies, late;
};

TableSpec rows_of(uint32_t bytes) {
  TableSpec spec;
  spec.name = "load";
  spec.capacity = 1000;
  spec.columns = {{"row", DataType::u8, {bytes}}};
  spec.item.views = {{"row", 0, 0, 0, Pad::repeat, Align::anchor}};
  return spec;
}

}  // namespace

TEST_CASE("every request of a light load is answered, in the time that its link takes") {
  RunningServer server;
  OpenLoop load(server.address(), Poll::block, {.delay_ns = kDelayNs});
  load.ping(100);
  Run run(40);
  const Offered offered = run.of(load, 200);
  CHECK(offered.answered == 40);
  CHECK(std::ranges::min(run.latencies) >= kTripNs);
  for (size_t i = 0; i < 40; ++i) CHECK(run.latencies[i] >= kTripNs + run.late[i]);
}

TEST_CASE("what waits behind a full window counts from when it was due") {
  RunningServer server;
  OpenLoop load(server.address(), Poll::block, {.delay_ns = kDelayNs});
  load.ping(8);
  // Four at a time, each 10 ms under way: 400 a second at most, and ten times as many are due.
  Run run(200);
  CHECK(run.of(load, 4000).answered == 200);
  CHECK(std::ranges::max(run.latencies) >= 20 * kTripNs);
  CHECK(std::ranges::max(run.late) >= 20 * kTripNs);
}

TEST_CASE("a run that is given up counts what has no answer, and the next begins afresh") {
  RunningServer server;
  OpenLoop load(server.address(), Poll::busy, {.delay_ns = kDelayNs});
  load.ping(8);
  Run run(400);
  constexpr uint64_t kLimitNs = 4 * kTripNs;
  const Offered offered = run.of(load, 20'000, kLimitNs);
  CHECK(offered.answered <= 16);
  // Those that were due in the first half have waited for the rest of it, answered or not.
  const auto waited = [&](uint64_t latency) { return latency >= kTripNs; };
  CHECK(std::ranges::all_of(std::span(run.latencies).first(200), waited));
  Run next(8);
  CHECK(next.of(load, 100).answered == 8);
}

TEST_CASE("lost frames are sent again, and their requests answered late") {
  RunningServer server;
  OpenLoop load(server.address(), Poll::block, {.drop = 0.05});
  load.ping(8);
  Run run(100);
  CHECK(run.of(load, 2000).answered == 100);
  CHECK(std::ranges::max(run.latencies) >= 50'000);  // found lost by a later one's answer, at least
}

TEST_CASE("appends are stored once each, and samples come whole") {
  RunningServer server;
  Client client(options_of(server));
  const TableSpec spec = rows_of(33);
  const uint32_t table = client.open_table(spec);
  OpenLoop load(server.address(), Poll::block, {.drop = 0.05});
  const std::vector<std::byte> row(33, std::byte{7});
  load.append(table, client.lease(table, 1).front(), row);
  Run run(300);
  CHECK(run.of(load, 3000).answered == 300);
  CHECK(run.of(load, 3000).answered == 300);
  CHECK(metric(client, "table.load.rows") == 600);
  CHECK(metric(client, "table.load.items_created") == 600);
  load.sample(table, 20, SampleLayout(spec).total_bytes(20));
  CHECK(run.of(load, 3000).answered == 300);
  CHECK(metric(client, "table.load.items_drawn") == 20 * 300);
}

TEST_CASE("an error of the server's ends the run with its words") {
  RunningServer server;
  OpenLoop load(server.address(), Poll::block, {});
  load.sample(17, 1, 64);
  Run run(5);
  CHECK(error_of([&] { run.of(load, 1000); }).status() == Status::unknown_table);
}

}  // namespace drlnet::test
