#include "replay/logical_table.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "base/random.h"

namespace drlnet::test {
namespace {

struct Woken {
  std::atomic<uint64_t> shards{0};
  std::function<void(uint64_t)> wake() {
    return [this](uint64_t bits) { shards |= bits; };
  }
  uint64_t take() { return shards.exchange(0); }
};

}  // namespace

TEST_CASE("min_size and the ratio hold over all shards") {
  Woken woken;
  // Balance: 2 * (created - 4) - drawn in [-8, 8].
  LogicalTable table({.min_size = 4, .samples_per_insert = 2, .error_buffer = 8}, 2, woken.wake());
  CHECK(table.take_draws(0, 1) == Wait::min_size);
  CHECK(table.take_room(0, 3));
  table.appended(0, 3, 3, 3);
  CHECK(woken.take() == 0);  // the asking shard tries again by itself
  CHECK(table.take_draws(1, 1) == Wait::min_size);
  CHECK(table.take_room(1, 1));
  table.appended(1, 1, 1, 1);
  CHECK(woken.take() == 1);  // shard 0 waited; shard 1 still does, and asks itself
  CHECK(table.take_draws(0, 5) == Wait::none);
  CHECK(table.take_draws(1, 4) == Wait::samples_limit);
  CHECK(table.take_draws(1, 3) == Wait::none);
  CHECK(table.take_draws(0, 0) == Wait::none);
  CHECK(table.take_draws(0, 1) == Wait::samples_limit);
}

TEST_CASE("room that is given counts until it is used, and what is not created is free again") {
  Woken woken;
  LogicalTable table({.min_size = 1, .samples_per_insert = 1, .error_buffer = 4}, 3, woken.wake());
  CHECK(table.take_room(0, 1));
  table.appended(0, 1, 1, 1);
  CHECK(table.take_room(0, 3));        // balance 3
  CHECK_FALSE(table.take_room(1, 2));  // 5
  CHECK_FALSE(table.take_room(2, 1));  // behind shard 1, though 4 would do
  table.appended(0, 3, 1, 2);          // two of them were there already: balance 1
  CHECK(woken.take() == 0b110);
  CHECK_FALSE(table.take_room(2, 1));
  CHECK(table.take_room(1, 2));  // 3
  CHECK(woken.take() == 0b100);
  CHECK(table.take_room(2, 1));  // 4
  CHECK_FALSE(table.take_room(0, 1));
  CHECK_FALSE(table.take_room(1, 1));
  table.leave_line(0);  // its client is gone: the next in line is asked
  CHECK(woken.take() == 0b010);
  CHECK(table.take_draws(2, 1) == Wait::none);
  CHECK(table.take_room(1, 1));
}

TEST_CASE("new streams go to the shard that has fewest") {
  LogicalTable table({}, 3, [](uint64_t) {});
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

TEST_CASE("threads that insert and draw at once never leave the limits") {
  constexpr uint32_t kShards = 4;
  constexpr double kRatio = 3, kBuffer = 64;
  constexpr uint64_t kMinSize = 20, kCreated = 20'000;
  Woken woken;
  LogicalTable table({.min_size = kMinSize, .samples_per_insert = kRatio, .error_buffer = kBuffer},
                     kShards, woken.wake());
  std::atomic<uint64_t> created{0}, drawn{0};
  std::atomic<bool> sound{true};
  std::vector<std::thread> threads;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    threads.emplace_back([&, shard] {
      Random random(shard);
      uint64_t own = 0;
      while (created < kCreated) {
        if (const uint64_t items = 1 + random.below(4); table.take_room(shard, items)) {
          const uint64_t stored = items - random.below(2);
          own += stored;
          created += stored;
          table.appended(shard, items, stored, own);
        }
        const uint64_t batch = 1 + random.below(16);
        if (table.take_draws(shard, batch) != Wait::none) continue;
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

}  // namespace drlnet::test
