#include "base/fair_mutex.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace drlnet::test {

TEST_CASE("nobody is kept out by who asks again and again, spinning or asleep") {
  for (const uint64_t held_ns : {uint64_t{0}, uint64_t{100'000}}) {
    CAPTURE(held_ns);
    FairMutex mutex(20'000);
    std::atomic<int> rounds = 0;
    std::atomic<bool> stop = false;
    std::thread greedy([&] {
      while (!stop) {
        const std::lock_guard lock(mutex);
        ++rounds;
        for (const uint64_t until = now_ns() + held_ns; now_ns() < until;) spin_pause();
      }
    });
    while (rounds == 0) spin_pause();
    int kept_out = 0;
    for (int i = 0; i < 50; ++i) {
      mutex.lock();
      const int before = rounds;
      mutex.unlock();
      mutex.lock();
      kept_out += rounds > before + 1;  // the greedy one has had more than one turn
      mutex.unlock();
    }
    // It may, where this thread was interrupted between giving up the lock and asking for it.
    CHECK(kept_out <= 5);
    stop = true;
    greedy.join();
  }
}

TEST_CASE("what it guards is one thread's at a time, and who waits is seen") {
  FairMutex mutex(1000);
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
