#include "base/world.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/function_ref.h"

namespace drlnet::test {
namespace {

// What lies between now_ns() and the kernel's clock, at most, over a while of spinning; and whether
// a reading was ever less than the one before.
struct Watched {
  int64_t apart_ns = 0;
  bool backwards = false;
};

Watched watch(uint64_t duration_ns) {
  // A reading that was interrupted says nothing about the clock.
  constexpr uint64_t kInterruptedNs = 5'000;
  Watched seen;
  const uint64_t end = kernel_now_ns() + duration_ns;
  for (uint64_t before = 0, kernel = 0; kernel < end;) {
    const uint64_t now = now_ns();
    kernel = kernel_now_ns();
    const uint64_t after = now_ns();
    seen.backwards |= now < before || after < now;
    before = after;
    if (after - now > kInterruptedNs) continue;
    const auto apart =
        std::max(static_cast<int64_t>(now - kernel), static_cast<int64_t>(kernel - after));
    seen.apart_ns = std::max(seen.apart_ns, apart);
  }
  return seen;
}

}  // namespace

TEST_CASE("the clock is the kernel's, in every thread, and never goes back") {
  constexpr uint64_t kWhileNs = 150'000'000;  // the counter is set again many times
  std::array<Watched, 3> seen;
  std::array<std::thread, 3> threads;
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i] = std::thread([&seen, i] { seen[i] = watch(kWhileNs); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Watched& one : seen) {
    CHECK(!one.backwards);
    CHECK(one.apart_ns < 20'000);
  }
}

TEST_CASE("a reference to a function calls it, whatever it is, and owns nothing") {
  int called = 0;
  const auto twice = [](FunctionRef<int(int)> function) { return function(1) + function(10); };
  CHECK(twice([&](int n) {
          ++called;
          return 2 * n;
        }) == 22);
  CHECK(called == 2);
  struct Counting {
    int calls = 0;
    int operator()(int n) { return calls += n; }
  } counting;
  CHECK(twice(counting) == 12);
  CHECK(counting.calls == 11);
}

}  // namespace drlnet::test
