// Items that a sampler takes for useless retire before their rows leave.
#include <doctest/doctest.h>

#include "replay/request.h"

namespace drlnet::test {
namespace {

constexpr uint64_t kRows = 20;

TableSpec spec_of(uint64_t min_size) {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = 2 * kRows;
  spec.columns = {{"x", DataType::u32, {}}};
  spec.item.views = {{"x", 0, 0, 0, Pad::repeat, Align::anchor}};
  spec.sampler = {
      .name = "curriculum", .priority_exponent = 1, .options = {{"useless", 0.5}, {"fresh", 0.95}}};
  spec.limiter.min_size = min_size;
  return spec;
}

// Rows of one open episode, an item at each.
void append(Table& table, const Lease& lease, uint64_t from, uint64_t to) {
  Request request(table.spec());
  request.segment(lease, from);
  for (uint64_t step = from; step < to; ++step) {
    request.row(step == 0 ? kFirst : 0, filled(table.spec(), step));
    request.item(lease, step, 1);
  }
  REQUIRE(request.send(table) == Status::ok);
}

std::vector<uint64_t> draw_all(Table& table) {
  DrawnBatch drawn;
  table.draw(static_cast<uint32_t>(20 * table.live_items()), drawn);
  std::ranges::sort(drawn.keys);
  const auto [from, to] = std::ranges::unique(drawn.keys);
  drawn.keys.erase(from, to);
  return drawn.keys;
}

}  // namespace

TEST_CASE("what is useless is drawn no more, its rows stay, and clients are told") {
  Table table(spec_of(3), 0, 1);
  const Lease lease = table.streams().lease(1, 0);
  append(table, lease, 0, kRows);
  std::vector<uint64_t> named;
  std::vector<float> stored;
  const ChangesHeader known = table.changes(0, 1000, named, stored);
  const auto keys = draw_all(table);
  REQUIRE(keys.size() == kRows);
  std::vector<float> priorities(kRows, 1.0f);
  std::fill_n(priorities.begin(), 5, 1e-4f);
  uint64_t applied = 0, stale = 0;
  REQUIRE(table.update_priorities(keys, priorities, applied, stale) == Status::ok);
  CHECK(applied == kRows);
  CHECK(table.live_items() == kRows - 5);
  CHECK(table.rows() == kRows);
  CHECK(table.consistent());
  CHECK(draw_all(table) == std::vector<uint64_t>(keys.begin() + 5, keys.end()));
  table.update_priorities(keys, priorities, applied, stale);
  CHECK(stale == 5);
  table.changes(known.next, 1000, named, stored);
  for (size_t i = 0; i < 5; ++i) {
    const auto at = std::ranges::find(named, keys[i]);
    REQUIRE(at != named.end());
    CHECK(stored[static_cast<size_t>(at - named.begin())] == 0);
  }
  append(table, lease, kRows, 4 * kRows);  // all of those rows leave
  CHECK(table.consistent());
  CHECK(table.live_items() == 2 * kRows);
}

TEST_CASE("as many items stay as a draw needs") {
  Table table(spec_of(kRows - 2), 0, 1);
  const Lease lease = table.streams().lease(1, 0);
  append(table, lease, 0, kRows);
  const auto keys = draw_all(table);
  std::vector<float> priorities(kRows, 1e-6f);
  priorities[0] = 1;
  uint64_t applied = 0, stale = 0;
  REQUIRE(table.update_priorities(keys, priorities, applied, stale) == Status::ok);
  CHECK(table.live_items() == kRows - 2);
  CHECK(table.may_sample(4) == Wait::none);
  CHECK(table.consistent());
}

}  // namespace drlnet::test
