// How one end of a shared-memory link wakes the other, which sleeps: a word of shared memory says
// that it does, and only then is a descriptor written to. Threading: each end on one thread.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace drlnet::dpdk {

// Lies in memory shared by the two ends. A link's ends are 0, the server's, and 1, the client's.
struct DoorbellPage {
  struct alignas(64) End {
    std::atomic<uint32_t> waits{0};
  } ends[2];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct Doorbell {
  DoorbellPage* page = nullptr;
  int end = 0;       // ours
  int peer_fd = -1;  // an eventfd: wakes the other end

  // From now on a frame that the other end sends wakes us; look for frames once more afterwards.
  void wait_begins() {
    page->ends[end].waits.store(1, std::memory_order_relaxed);
    // Ordered before the look at the ring that follows, as ring() orders its own the other way.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void wait_ended() { page->ends[end].waits.store(0, std::memory_order_relaxed); }
  // After frames were put on the ring.
  void ring() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic<uint32_t>& waits = page->ends[1 - end].waits;
    if (waits.load(std::memory_order_relaxed) == 0) return;
    if (waits.exchange(0, std::memory_order_relaxed) == 0) return;
    const uint64_t one = 1;
    // Only an eventfd at its maximum refuses, and then the other end is awake anyway.
    [[maybe_unused]] const ssize_t written = write(peer_fd, &one, sizeof one);
  }
};

}  // namespace drlnet::dpdk
