// Timed loops, for the benchmarks: operations of a few microseconds cannot be timed from an
// interpreter. Every loop fills `latencies_ns` from its front, ends early once `budget_ns` has
// passed, and returns how many calls it made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/world.h"

namespace drlnet::measure {

struct Loop {
  std::span<uint64_t> latencies_ns;
  uint64_t budget_ns;
};

// A latency runs from the end of the call before, so that one call costs one reading of the clock.
template <typename Call>
size_t run(const Loop& loop, Call call) {
  uint64_t before = now_ns();
  const uint64_t end = before + loop.budget_ns;
  size_t count = 0;
  while (count < loop.latencies_ns.size() && before < end) {
    call();
    const uint64_t after = now_ns();
    loop.latencies_ns[count++] = after - before;
    before = after;
  }
  return count;
}

// For calls whose arguments have to be made: `prepare` comes before each and is not timed, though
// the budget counts it.
template <typename Prepare, typename Call>
size_t run(const Loop& loop, Prepare prepare, Call call) {
  const uint64_t end = now_ns() + loop.budget_ns;
  for (size_t count = 0; count < loop.latencies_ns.size(); ++count) {
    prepare();
    const uint64_t before = now_ns();
    if (before >= end) return count;
    call();
    loop.latencies_ns[count] = now_ns() - before;
  }
  return loop.latencies_ns.size();
}

}  // namespace drlnet::measure
