// Tables whose items retire after a number of draws: nothing twice, nothing lost, nothing silent.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "replay/request.h"

namespace drlnet::test {
namespace {

constexpr uint32_t kUnroll = 4;

// Unrolls of 4 steps and the row behind them, over episode boundaries.
TableSpec queue_spec(const char* sampler = "fifo", uint32_t most = 1) {
  TableSpec spec;
  spec.name = "unrolls";
  spec.capacity = 64;
  spec.columns = {{"x", DataType::u32, {}}};
  spec.item.views = {{"x", 0, 0, kUnroll, Pad::repeat, Align::anchor}};
  spec.item.boundary = Boundary::cross;
  spec.item.period = kUnroll;
  spec.sampler.name = sampler;
  spec.limiter.max_times_sampled = most;
  return spec;
}

struct Queue {
  explicit Queue(const TableSpec& spec)
      : table(spec, 0, 1), lease(table.streams().lease(1, 0)), next(0) {}

  // Rows of episodes of 7 steps, anchored at each; true when the limiter lets them in.
  bool append(uint64_t rows) {
    Request request(table.spec());
    request.segment(lease, next);
    for (uint64_t step = next; step < next + rows; ++step) {
      const auto flags =
          static_cast<uint8_t>((step % 7 == 0 ? kFirst : 0) | (step % 7 == 6 ? kLast : 0));
      std::vector<std::byte> row(4);
      const auto value = static_cast<uint32_t>(step);
      std::memcpy(row.data(), &value, 4);
      request.row(flags, row);
      request.item(lease, step, 1);
    }
    std::vector<std::span<const std::byte>> columns(request.columns());
    const Append append{request.segments_, request.flags_, columns, request.items_};
    if (!table.may_insert(append)) return false;
    REQUIRE(table.append(append, result) == Status::ok);
    next += rows;
    REQUIRE(table.consistent());
    return true;
  }
  // The first steps of the unrolls drawn.
  std::vector<uint64_t> draw(uint32_t batch) {
    REQUIRE(table.may_sample(batch) == Wait::none);
    DrawnBatch drawn;
    table.draw(batch, drawn);
    REQUIRE(table.consistent());
    std::vector<uint64_t> steps;
    for (const uint64_t key : drawn.keys) steps.push_back(key & 0xFF);
    return steps;
  }

  Table table;
  Lease lease;
  uint64_t next;
  AppendResult result;
};

}  // namespace

TEST_CASE("unrolls neither overlap nor leave gaps, over episodes' ends") {
  Queue queue(queue_spec());
  REQUIRE(queue.append(41));
  CHECK(queue.result.items_created == 11);  // at 0, 4, ..., 40, LAST rows among them
  CHECK(queue.result.items_refused == 30);
  CHECK(queue.draw(10) == std::vector<uint64_t>{0, 4, 8, 12, 16, 20, 24, 28, 32, 36});
  CHECK(queue.table.may_sample(1) == Wait::min_size);  // the one at 40 waits for its rows
}

TEST_CASE("every sampler draws each item as often as it may be drawn, and no more") {
  for (const SamplerKind& kind : sampler_kinds()) {
    for (const uint32_t most : {1u, 2u, 5u}) {
      INFO(kind.name, " ", most);
      Queue queue(queue_spec(std::string(kind.name).c_str(), most));
      REQUIRE(queue.append(41));
      std::map<uint64_t, uint32_t> times;
      CHECK(queue.table.may_sample(10 * most + 1) == Wait::samples_limit);
      for (const uint64_t step : queue.draw(3)) ++times[step];
      for (const uint64_t step : queue.draw(10 * most - 3)) ++times[step];
      CHECK(times.size() == 10);
      CHECK(std::ranges::all_of(times, [&](const auto& one) { return one.second == most; }));
      CHECK(queue.table.live_items() == 0);
      CHECK(queue.table.may_sample(1) == Wait::min_size);
    }
  }
}

TEST_CASE("an append waits while it would overwrite what was not drawn") {
  Queue queue(queue_spec());
  REQUIRE(queue.append(64));
  CHECK_FALSE(queue.append(1));  // the unroll at 0
  queue.draw(1);
  REQUIRE(queue.append(4));
  CHECK_FALSE(queue.append(1));
  CHECK(queue.draw(2) == std::vector<uint64_t>{4, 8});
  REQUIRE(queue.append(8));
  CHECK(queue.result.rows_stored == 8);
}

TEST_CASE("rows that are stored already overwrite nothing") {
  Queue queue(queue_spec());
  REQUIRE(queue.append(64));
  queue.next = 60;
  REQUIRE(queue.append(4));  // sent again
  CHECK(queue.result.rows_ignored == 4);
  CHECK(queue.result.items_ignored == 1);
}

TEST_CASE("queues that can deadlock are refused") {
  TableSpec spec = queue_spec();
  spec.limiter.batch = 8;
  spec.limiter.prefetch = 1;
  CHECK_THROWS_WITH_AS(check(spec), doctest::Contains("can not hold 16 items"), Error);
  spec.limiter.max_times_sampled = 2;
  check(spec);
  CHECK_THROWS_WITH_AS(check(spec, 2), doctest::Contains("32 rows in each shard"), Error);
  spec.limiter.samples_per_insert = 3;
  spec.limiter.error_buffer = 100;
  CHECK_THROWS_WITH_AS(check(spec), doctest::Contains("samples_per_insert exceeds"), Error);
}

}  // namespace drlnet::test
