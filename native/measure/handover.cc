#include "measure/handover.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "base/assert.h"
#include "base/world.h"

namespace drlnet::measure {
namespace {

constexpr uint64_t kDeadlineNs = 50'000'000;
constexpr uint32_t kRuns = 16, kHandovers = 64;
constexpr uint32_t kSpinsPerClock = 1024;

using Message = std::array<std::byte, kMostHandedOver>;

// One direction, apart from what is fetched beside it.
struct Box {
  alignas(128) std::atomic<uint64_t> number = 0;
  alignas(64) Message message{};
};

struct Boxes {
  size_t bytes;
  Box there, back;
  alignas(128) std::atomic<bool> ended = false;
  uint64_t sent = 0;  // the calling thread's
};

void answer(Boxes& boxes) {
  Message message;
  for (uint64_t seen = 0; !boxes.ended.load(std::memory_order_relaxed);) {
    const uint64_t now = boxes.there.number.load(std::memory_order_acquire);
    if (now == seen) continue;
    seen = now;
    std::copy_n(boxes.there.message.begin(), boxes.bytes, message.begin());
    std::copy_n(message.begin(), boxes.bytes, boxes.back.message.begin());
    boxes.back.number.store(now, std::memory_order_release);
  }
}

// One handover. False when there is no answer until the deadline.
bool hand_over(Boxes& boxes, uint64_t deadline_ns) {
  Message message;
  message[0] = static_cast<std::byte>(++boxes.sent);
  std::copy_n(message.begin(), boxes.bytes, boxes.there.message.begin());
  boxes.there.number.store(boxes.sent, std::memory_order_release);
  for (uint32_t spins = 1; boxes.back.number.load(std::memory_order_acquire) != boxes.sent;
       ++spins) {
    if (spins % kSpinsPerClock == 0 && now_ns() >= deadline_ns) return false;
  }
  std::copy_n(boxes.back.message.begin(), boxes.bytes, message.begin());
  DRLNET_ASSERT(message[0] == static_cast<std::byte>(boxes.sent));
  return true;
}

// Calls use(boxes) while a thread on `core` answers, unless it may not run there.
template <typename Use>
void while_answered(unsigned core, size_t bytes, Use use) {
  Boxes boxes{.bytes = bytes, .there = {}, .back = {}};
  cpu_set_t own;
  const bool known = pthread_getaffinity_np(pthread_self(), sizeof own, &own) == 0;
  std::thread other([&] { answer(boxes); });
  // From here: the thread itself may come to run only when this one no longer spins.
  if (stay_on(other.native_handle(), core) && hand_over(boxes, now_ns() + kDeadlineNs)) use(boxes);
  boxes.ended = true;
  // Its core may be another process's for long: it ends on ours, which waits now.
  if (known) pthread_setaffinity_np(other.native_handle(), sizeof own, &own);
  other.join();
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
  std::optional<uint64_t> best;
  while_answered(core, 0, [&](Boxes& boxes) {
    const uint64_t deadline_ns = now_ns() + kDeadlineNs;
    for (uint32_t run = 0; run < kRuns; ++run) {
      const uint64_t before = now_ns();
      for (uint32_t i = 0; i < kHandovers; ++i) {
        if (!hand_over(boxes, deadline_ns)) return;
      }
      const uint64_t mean = (now_ns() - before) / kHandovers;
      best = std::min(best.value_or(mean), mean);
    }
  });
  return best;
}

size_t handovers(unsigned core, size_t bytes, const Loop& loop) {
  DRLNET_ASSERT(bytes <= kMostHandedOver);
  size_t count = 0;
  while_answered(core, bytes, [&](Boxes& boxes) {
    uint64_t before = now_ns();
    const uint64_t end = before + loop.budget_ns;
    while (count < loop.latencies_ns.size() && before < end) {
      if (!hand_over(boxes, before + kDeadlineNs)) return;
      const uint64_t after = now_ns();
      loop.latencies_ns[count++] = after - before;
      before = after;
    }
  });
  return count;
}

}  // namespace drlnet::measure
