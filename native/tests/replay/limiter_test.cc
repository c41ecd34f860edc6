#include "replay/limiter.h"

#include <doctest/doctest.h>

#include "base/random.h"

namespace drlnet::test {

TEST_CASE("without a ratio only min_size holds draws up") {
  Limiter limiter({.min_size = 10});
  CHECK(limiter.may_insert(1'000'000, {0}));
  CHECK(limiter.may_sample(1, 1, {9}) == Wait::min_size);
  CHECK(limiter.may_sample(1'000'000, 1'000'000, {10}) == Wait::none);
  CHECK(Limiter({.min_size = 0}).may_sample(1, 1, {0}) == Wait::min_size);  // nothing to draw
}

TEST_CASE("the ratio holds both sides within the error buffer") {
  // Balance: 4 * (created - 10) - drawn in [-40, 40].
  Limiter limiter({.min_size = 10, .samples_per_insert = 4, .error_buffer = 40});
  limiter.inserted(10);
  CHECK(limiter.may_sample(40, 40, {10}) == Wait::none);
  CHECK(limiter.may_sample(41, 41, {10}) == Wait::samples_limit);
  limiter.sampled(40);
  CHECK(limiter.may_sample(1, 1, {10}) == Wait::samples_limit);
  limiter.inserted(1);
  CHECK(limiter.may_sample(4, 4, {11}) == Wait::none);
  CHECK(limiter.may_sample(5, 5, {11}) == Wait::samples_limit);
  CHECK(limiter.may_insert(19, {11}));
  CHECK_FALSE(limiter.may_insert(20, {11}));
  CHECK(limiter.may_insert(0, {11}));  // rows without items are never held up
  CHECK(limiter.may_insert(20, {9}));  // else draws would never reach min_size
}

TEST_CASE("a queue gives what it has left, and waits for min_size before its first draw alone") {
  Limiter limiter({.min_size = 10, .max_times_sampled = 2});
  CHECK(limiter.may_sample(1, 1, {9, 18}) == Wait::min_size);
  CHECK(limiter.may_sample(20, 20, {10, 20}) == Wait::none);
  CHECK(limiter.may_sample(0, 21, {10, 20}) == Wait::samples_limit);
  limiter.sampled(15);
  CHECK(limiter.may_sample(5, 5, {3, 5}) == Wait::none);
  CHECK(limiter.may_sample(6, 6, {3, 5}) == Wait::min_size);
}

TEST_CASE("settings that check() accepts never hold up both sides") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const auto batch = static_cast<uint32_t>(1 + random.below(64));
    const auto prefetch = static_cast<uint32_t>(random.below(3));
    const auto burst = static_cast<uint32_t>(1 + random.below(64));
    const double ratio = 0.1 + 8 * random.uniform();
    Limiter limiter({.min_size = 1 + random.below(100),
                     .samples_per_insert = ratio,
                     .error_buffer = batch * (prefetch + 1.0) + ratio * burst});
    uint64_t live = 0;
    for (int i = 0; i < 2000; ++i) {
      const uint64_t items = 1 + random.below(burst);
      const bool insert = limiter.may_insert(items, {live});
      const bool sample = limiter.may_sample(batch, batch, {live}) == Wait::none;
      REQUIRE((insert || sample));
      if (insert && (!sample || random.below(2) == 0)) {
        limiter.inserted(items);
        live += items - random.below(2) * (items / 2);  // some retire before they are drawn
      } else {
        limiter.sampled(batch);
      }
      if (live > 300) live -= random.below(250);
    }
    const double drawn = static_cast<double>(limiter.items_drawn());
    const double created = static_cast<double>(limiter.items_created());
    CHECK(drawn / created < ratio + 1);
  }
}

}  // namespace drlnet::test
