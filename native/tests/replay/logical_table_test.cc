#include "replay/logical_table.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "base/random.h"

namespace drlnet::test {
namespace {

using Want = Waiter::Want;

// Requests by the shard and the session that send them.
struct Line {
  explicit Line(const LimiterSpec& limiter, uint32_t shards)
      : table(limiter, shards, [this](uint64_t bits) { woken |= bits; }) {}

  bool insert(uint32_t shard, uint32_t session, uint64_t items, bool ring_full = false) {
    return table.ask({Want::insert, shard, session, items, 0, ring_full}) == Wait::none;
  }
  Wait draw(uint32_t shard, uint32_t session, uint64_t batch) {
    return table.ask({Want::draw, shard, session, batch, batch});
  }
  // 0: no request at that shard.
  uint32_t next(uint32_t shard) {
    const auto waiter = table.next(shard);
    return waiter ? waiter->session : 0;
  }
  uint64_t take_woken() { return woken.exchange(0); }

  std::atomic<uint64_t> woken{0};
  LogicalTable table;
};

}  // namespace

TEST_CASE("min_size and the ratio hold over all shards") {
  // Balance: 2 * (created - 4) - drawn in [-8, 8].
  Line line({.min_size = 4, .samples_per_insert = 2, .error_buffer = 8}, 2);
  CHECK(line.draw(0, 7, 1) == Wait::min_size);
  CHECK(line.insert(0, 8, 3));
  line.table.changed(0, 3, 3, {3});
  CHECK(line.next(0) == 0);
  CHECK(line.insert(1, 8, 1));
  line.table.changed(1, 1, 1, {1});
  CHECK(line.take_woken() == 1);
  CHECK(line.next(0) == 7);
  CHECK(line.draw(0, 7, 5) == Wait::none);
  CHECK(line.draw(1, 7, 4) == Wait::samples_limit);
  CHECK(line.draw(1, 7, 3) == Wait::none);
  CHECK(line.draw(0, 7, 1) == Wait::samples_limit);
}

TEST_CASE("room that is given counts until it is used, and what is not created is free again") {
  Line line({.min_size = 1, .samples_per_insert = 1, .error_buffer = 4}, 3);
  CHECK(line.insert(0, 1, 1));
  line.table.changed(0, 1, 1, {1});
  CHECK(line.insert(0, 1, 3));        // balance 3
  CHECK_FALSE(line.insert(1, 1, 2));  // 5
  CHECK_FALSE(line.insert(2, 1, 1));  // behind shard 1, though 4 would do
  line.table.changed(0, 3, 1, {2});   // two of them were there already: balance 1
  CHECK(line.take_woken() == 0b010);
  CHECK_FALSE(line.insert(2, 1, 1));
  CHECK(line.insert(1, 1, 2));  // 3
  CHECK(line.take_woken() == 0b100);
  CHECK(line.insert(2, 1, 1));  // 4
  CHECK_FALSE(line.insert(0, 1, 1));
  CHECK_FALSE(line.insert(1, 1, 1));
  CHECK(line.draw(2, 2, 1) == Wait::none);
  CHECK(line.take_woken() == 0b001);
  line.table.leave(0, 1);  // its client is gone: the next in line is asked
  CHECK(line.take_woken() == 0b010);
  CHECK(line.insert(1, 1, 1));
}

TEST_CASE("each kind waits in order of arrival, and neither behind the other") {
  Line line({.min_size = 1, .samples_per_insert = 1, .error_buffer = 4}, 1);
  CHECK(line.insert(0, 1, 5));
  line.table.changed(0, 5, 5, {5});
  CHECK_FALSE(line.insert(0, 1, 4));
  CHECK_FALSE(line.insert(0, 2, 1));
  CHECK_FALSE(line.insert(0, 0, 1));                 // tries again by itself, and has no place
  CHECK(line.draw(0, 3, 9) == Wait::samples_limit);  // at most 8
  CHECK(line.draw(0, 4, 1) == Wait::samples_limit);  // would do, but came later
  line.table.leave(0, 3);
  CHECK(line.next(0) == 4);
  CHECK(line.draw(0, 4, 1) == Wait::none);
  CHECK(line.next(0) == 0);  // 4 items more are still too many
  CHECK(line.draw(0, 4, 3) == Wait::none);
  CHECK(line.next(0) == 1);
  CHECK_FALSE(line.insert(0, 2, 1));
  CHECK(line.insert(0, 1, 4));
  line.table.changed(0, 4, 4, {9});
  CHECK(line.next(0) == 0);
  CHECK(line.draw(0, 4, 1) == Wait::none);
  CHECK(line.next(0) == 2);
  CHECK(line.insert(0, 2, 1));
  CHECK(line.take_woken() == 0);  // the shard that changes something asks by itself
}

TEST_CASE("a full ring holds up its own shard's appends until something is drawn there") {
  Line line({.max_times_sampled = 1}, 2);
  CHECK(line.insert(0, 1, 5));
  line.table.changed(0, 5, 5, {5, 5});
  CHECK_FALSE(line.insert(0, 1, 1, true));
  CHECK_FALSE(line.insert(0, 2, 1));  // behind it
  CHECK(line.insert(1, 1, 1));
  line.table.changed(1, 1, 1, {1, 1});
  CHECK(line.next(0) == 0);
  CHECK(line.draw(1, 3, 6) == Wait::none);  // of all shards together
  CHECK(line.next(0) == 0);
  line.table.changed(0, 0, 0, {4, 4});
  CHECK(line.next(0) == 1);
  CHECK_FALSE(line.insert(0, 1, 1, true));  // not yet enough
  CHECK(line.next(0) == 0);
  line.table.changed(0, 0, 0, {3, 3});
  CHECK(line.insert(0, 1, 1));
  CHECK(line.next(0) == 2);
}

TEST_CASE("new streams go to the shard that has fewest") {
  LogicalTable table({}, 3);
  table.set_streams(0, 2);
  table.set_streams(2, 1);
  CHECK(table.emptiest() == 1);
  table.set_streams(1, 2);
  CHECK(table.emptiest() == 2);
  table.set_streams(2, 2);
  const uint32_t a = table.emptiest(), b = table.emptiest(), c = table.emptiest();
  CHECK((a + 1) % 3 == b);
  CHECK((b + 1) % 3 == c);
}

TEST_CASE("a line that ends gives each shard its own requests, and wakes the other shards once") {
  Line line({.min_size = 100, .max_times_sampled = 1}, 3);
  CHECK(line.draw(0, 1, 1) == Wait::min_size);
  CHECK(line.draw(2, 1, 1) == Wait::min_size);
  CHECK_FALSE(line.insert(2, 1, 1, true));
  CHECK_FALSE(line.insert(2, 5, 1, true));
  CHECK_FALSE(line.table.has_ended());
  CHECK(line.table.end(1).empty());
  CHECK(line.take_woken() == 0b101);
  CHECK(line.table.has_ended());
  const auto others = line.table.end(2);
  REQUIRE(others.size() == 3);
  CHECK((others[0].want == Want::draw && others[0].session == 1));
  CHECK((others[1].want == Want::insert && others[1].session == 1));
  CHECK((others[2].want == Want::insert && others[2].session == 5));
  CHECK(line.table.end(0).size() == 1);
  CHECK(line.table.end(0).empty());
  CHECK(line.take_woken() == 0);
  Line largest({}, LogicalTable::kMaxShards);
  CHECK(largest.table.end(63).empty());
  CHECK(largest.take_woken() == ~uint64_t{0} >> 1);
}

TEST_CASE("a shard that is restored again, from an older record, counts once") {
  Line line({}, 2);
  line.table.restore(1, 10, 4, {10});
  line.table.restore(0, 5, 1, {5});
  line.table.restore(1, 8, 3, {8});
  const Tally own = line.table.own();
  CHECK(own.created == 13);
  CHECK(own.drawn == 4);
  CHECK(own.stock.live_items == 13);
}

TEST_CASE("threads that insert and draw at once never leave the limits") {
  constexpr uint32_t kShards = 4;
  constexpr double kRatio = 3, kBuffer = 64;
  constexpr uint64_t kMinSize = 20, kCreated = 20'000;
  Line line({.min_size = kMinSize, .samples_per_insert = kRatio, .error_buffer = kBuffer}, kShards);
  std::atomic<uint64_t> created{0}, drawn{0};
  std::atomic<bool> sound{true};
  std::vector<std::thread> threads;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    threads.emplace_back([&, shard] {
      Random random(shard);
      uint64_t own = 0;
      while (created < kCreated) {
        if (const uint64_t items = 1 + random.below(4); line.insert(shard, 0, items)) {
          const uint64_t stored = items - random.below(2);
          own += stored;
          created += stored;
          line.table.changed(shard, items, stored, {own});
        }
        const uint64_t batch = 1 + random.below(16);
        if (line.draw(shard, 0, batch) != Wait::none) continue;
        const uint64_t all = drawn += batch;
        // Insertions are counted here before they allow draws there, so this is never too strict.
        if (kRatio * (static_cast<double>(created) - kMinSize) - static_cast<double>(all) <
            -kBuffer) {
          sound = false;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sound);
  const double balance =
      kRatio * (static_cast<double>(created) - kMinSize) - static_cast<double>(drawn);
  CHECK(balance >= -kBuffer);
  CHECK(balance <= kBuffer);
}

TEST_CASE("an append that found its ring full looks again once the shards are short of a batch") {
  Line line({.batch = 8, .max_times_sampled = 1}, 2);
  const auto insert = [&](bool has_batch) {
    return line.table.ask({Want::insert, 0, 5, 1, 0, true, has_batch}) == Wait::none;
  };
  line.table.changed(0, 0, 0, {4, 4});
  line.table.changed(1, 0, 0, {4, 4});
  REQUIRE(line.table.has_batch());
  CHECK_FALSE(insert(true));
  CHECK(line.next(0) == 0);
  line.take_woken();
  line.table.changed(1, 0, 0, {3, 3});  // a draw, elsewhere
  CHECK_FALSE(line.table.has_batch());
  CHECK(line.take_woken() == 0b01);
  CHECK(line.next(0) == 5);
  CHECK_FALSE(insert(false));
  CHECK(line.next(0) == 0);
  CHECK_FALSE(insert(true));  // that draw came while it looked
  CHECK(line.next(0) == 5);
}

TEST_CASE("a shard that was woken in vain is woken again") {
  Line line({.min_size = 4}, 2);
  CHECK(line.draw(1, 7, 1) == Wait::min_size);
  line.table.changed(0, 0, 4, {4});
  CHECK(line.take_woken() == 0b10);
  line.table.changed(0, 0, 0, {3});  // before the other one has looked
  CHECK(line.next(1) == 0);
  line.table.changed(0, 0, 1, {4});
  CHECK(line.take_woken() == 0b10);
  CHECK(line.next(1) == 7);
}

TEST_CASE("a draw of which its client has no rows counts only where an append is held") {
  Line line({.min_size = 1, .samples_per_insert = 1, .error_buffer = 4}, 1);
  CHECK(line.insert(0, 1, 5));
  line.table.changed(0, 5, 5, {5});  // balance 4
  line.table.pass_over(0, 3);
  CHECK_FALSE(line.insert(0, 1, 2));  // or it would go in now
  CHECK(line.next(0) == 0);
  line.table.pass_over(0, 3);
  CHECK(line.next(0) == 1);
  CHECK(line.insert(0, 1, 2));
}

}  // namespace drlnet::test
