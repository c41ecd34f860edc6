#include "measure/core_distance.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/world.h"

namespace drlnet::measure {
namespace {

constexpr uint64_t kDeadlineNs = 50'000'000;
constexpr uint32_t kRuns = 16, kHandovers = 64;
constexpr uint32_t kSpinsPerClock = 1024;

// What goes to and fro: a line for each direction, apart from what is fetched beside it.
struct Lines {
  alignas(128) std::atomic<uint64_t> there = 0;
  alignas(128) std::atomic<uint64_t> back = 0;
  alignas(128) std::atomic<bool> ended = false;
};

void answer(Lines& lines) {
  for (uint64_t seen = 0; !lines.ended.load(std::memory_order_relaxed);) {
    const uint64_t now = lines.there.load(std::memory_order_acquire);
    if (now == seen) continue;
    seen = now;
    lines.back.store(now, std::memory_order_release);
  }
}

// One handover. False when there is no answer until the deadline.
bool hand_over(Lines& lines, uint64_t number, uint64_t deadline_ns) {
  lines.there.store(number, std::memory_order_release);
  for (uint32_t spins = 1; lines.back.load(std::memory_order_acquire) != number; ++spins) {
    if (spins % kSpinsPerClock == 0 && now_ns() >= deadline_ns) return false;
  }
  return true;
}

std::optional<uint64_t> quickest(Lines& lines) {
  const uint64_t deadline_ns = now_ns() + kDeadlineNs;
  uint64_t number = 0;
  std::optional<uint64_t> best;
  if (!hand_over(lines, ++number, deadline_ns)) return best;  // it has started
  for (uint32_t run = 0; run < kRuns; ++run) {
    const uint64_t before = now_ns();
    for (uint32_t i = 0; i < kHandovers; ++i) {
      if (!hand_over(lines, ++number, deadline_ns)) return best;
    }
    const uint64_t mean = (now_ns() - before) / kHandovers;
    best = std::min(best.value_or(mean), mean);
  }
  return best;
}

}  // namespace

bool stay_on(pthread_t thread, unsigned core) {
  if (core >= CPU_SETSIZE) return false;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  return pthread_setaffinity_np(thread, sizeof one, &one) == 0;
}

std::optional<uint64_t> core_round_trip_ns(unsigned core) {
  Lines lines;
  cpu_set_t own;
  const bool known = pthread_getaffinity_np(pthread_self(), sizeof own, &own) == 0;
  std::thread other([&] { answer(lines); });
  // From here: the thread itself may come to run only when this one no longer spins.
  std::optional<uint64_t> found;
  if (stay_on(other.native_handle(), core)) found = quickest(lines);
  lines.ended = true;
  // Its core may be another process's for long: it ends on ours, which waits now.
  if (known) pthread_setaffinity_np(other.native_handle(), sizeof own, &own);
  other.join();
  return found;
}

}  // namespace drlnet::measure
