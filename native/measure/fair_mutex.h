// A lock that threads get in the order in which they asked for it: a thread that gives it up and
// asks again comes behind those that wait. Waiting threads spin for some time before they sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/world.h"

namespace drlnet::measure {

class FairMutex {
 public:
  explicit FairMutex(uint64_t spin_ns) : spin_ns_(spin_ns) {}

  void lock() {
    const uint64_t ticket = next_.fetch_add(1);
    if (serving_.load(std::memory_order_acquire) == ticket) return;
    for (const uint64_t until = now_ns() + spin_ns_; now_ns() < until; spin_pause()) {
      if (serving_.load(std::memory_order_acquire) == ticket) return;
    }
    std::unique_lock sleeping(mutex_);
    ++sleepers_;
    turn_.wait(sleeping, [&] { return serving_.load() == ticket; });
    --sleepers_;
  }

  void unlock() {
    serving_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    {
      const std::lock_guard asleep(mutex_);
    }  // a thread that looks at serving_ now sleeps when we notify
    turn_.notify_all();
  }

  // Whether another thread waits for the thread that has it.
  bool contended() const {
    return next_.load(std::memory_order_relaxed) - serving_.load(std::memory_order_relaxed) > 1;
  }

 private:
  const uint64_t spin_ns_;
  std::atomic<uint64_t> next_{0}, serving_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable turn_;
};

}  // namespace drlnet::measure
