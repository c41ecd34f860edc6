#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "measure/replay.h"

namespace drlnet::test {

TEST_CASE("a thread that asks again and again keeps no other out, spinning or asleep") {
  for (const uint64_t held_ns : {uint64_t{0}, uint64_t{100'000}}) {
    CAPTURE(held_ns);
    measure::FairMutex mutex(20'000);
    int turns = 0, kept_out = 0;  // guarded; of this thread
    std::atomic<int> waited_for = 0;
    std::thread greedy([&] {
      for (int before = -1; waited_for < 50;) {
        const std::lock_guard lock(mutex);
        kept_out += turns == before;
        for (const uint64_t until = now_ns() + held_ns; now_ns() < until;) spin_pause();
        // Only one that has asked is owed the next turn: it may have been interrupted before.
        const bool owed = mutex.contended();
        before = owed ? turns : -1;
        waited_for += owed;
      }
    });
    while (waited_for < 50) {
      const std::lock_guard lock(mutex);
      ++turns;
    }
    greedy.join();
    CHECK(kept_out == 0);
  }
}

TEST_CASE("what it guards is one thread's at a time, and waiting threads are seen") {
  measure::FairMutex mutex(1000);
  int value = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 20'000; ++n) {
        const std::lock_guard lock(mutex);
        ++value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(value == 80'000);
  CHECK_FALSE(mutex.contended());
  mutex.lock();
  CHECK_FALSE(mutex.contended());
  std::thread waiting([&] { const std::lock_guard lock(mutex); });
  while (!mutex.contended()) spin_pause();
  mutex.unlock();
  waiting.join();
}

}  // namespace drlnet::test
