#include "measure/crowd.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "client/bench.h"

namespace drlnet::test {
namespace {

using measure::Crowd;
using measure::Offered;

constexpr uint32_t kRows = 3;
constexpr size_t kAppends = 10;
constexpr uint64_t kLimitNs = 60'000'000'000;  // far beyond what a busy machine adds

TableSpec steps(uint64_t capacity) {
  TableSpec spec;
  spec.name = "actors";
  spec.capacity = capacity;
  spec.columns = {{"obs", DataType::f32, {4}}, {"terminated", DataType::u8, {}}};
  spec.item.views = {{"obs", 0, 0, 1, Pad::repeat, Align::anchor}};
  return spec;
}

}  // namespace

TEST_CASE("every step of every member is stored once, run after run, while more members come") {
  for (const char* address : {"udp://127.0.0.1:0", "memory:"}) {
    CAPTURE(address);
    RunningServer server(address);
    Client client(options_of(server));
    const TableSpec spec = steps(10'000);
    Crowd crowd(server.address(), client.open_table(spec), spec, kRows);
    uint64_t appends = 0;
    for (const size_t members : {5, 20}) {
      crowd.grow(members);
      REQUIRE(crowd.size() == members);
      const uint64_t silent = ~uint64_t{0};
      std::vector<uint64_t> latencies(members * kAppends, silent), late(latencies);
      const Offered offered = crowd.run(1000, kLimitNs, 1, latencies, late);
      CHECK(offered.answered == members * kAppends);
      // The last one of each is due nine intervals of 3 ms behind its first one.
      CHECK(offered.elapsed_ns >= 27'000'000);
      for (size_t i = 0; i < latencies.size(); ++i) CHECK(latencies[i] >= late[i]);
      CHECK(std::ranges::max(latencies) < silent);
      appends += members * kAppends;
    }
    CHECK(crowd.totals().appends == appends);
    CHECK(crowd.totals().rows_stored == kRows * appends);
    CHECK(crowd.totals().items_created == kRows * appends);
    CHECK(metric(client, "table.actors.rows") == kRows * appends);
    CHECK(metric(client, "table.actors.streams_leased") == 20);
    CHECK(metric(client, "table.actors.rows_ignored") == 0);
    CHECK(metric(client, "server.clients") == 21);
  }
}

TEST_CASE("a member that is refused says why, and those that are there go on") {
  RunningServer server;
  Client client(options_of(server));
  const TableSpec spec = steps(48);  // two windows of two rows for each of twelve streams
  Crowd crowd(server.address(), client.open_table(spec), spec, kRows);
  crowd.grow(4);
  const Error refused = error_of([&] { crowd.grow(20); });
  CHECK(refused.status() == Status::server_full);
  CHECK(refused.cause().find("12 streams") != std::string::npos);
  CHECK(crowd.size() == 12);
  std::vector<uint64_t> latencies(12 * kAppends), late(latencies);
  CHECK(crowd.run(1000, kLimitNs, 1, latencies, late).answered == 12 * kAppends);
}

TEST_CASE("a run that is given up counts what has no answer, and stores it all the same") {
  RunningServer server;
  Client client(options_of(server));
  const TableSpec spec = steps(10'000);
  Crowd crowd(server.address(), client.open_table(spec), spec, kRows);
  crowd.grow(2);
  // Due within 30 ms, given up after 9: most are left out, and count as late as they are.
  std::vector<uint64_t> latencies(2 * kAppends), late(latencies);
  const Offered offered = crowd.run(1000, 9'000'000, 1, latencies, late);
  CHECK(offered.answered < 2 * kAppends);
  CHECK(crowd.totals().appends >= offered.answered);
  CHECK(metric(client, "table.actors.rows") == kRows * crowd.totals().appends);
}

}  // namespace drlnet::test
