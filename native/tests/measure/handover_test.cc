#include "measure/handover.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include "base/world.h"

namespace drlnet::measure {
namespace {

constexpr uint64_t kLongNs = 2'000'000'000;  // of a machine that does much else

std::vector<unsigned> cores() {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<unsigned> found;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) found.push_back(core);
  }
  return found;
}

// Each in a thread of its own on that core, which a test's own thread is not left pinned to.
void on_core(unsigned core, const std::function<void()>& work) {
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    REQUIRE(pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0);
    work();
  }).join();
}

auto threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST_CASE("a cache line goes from one core to the other and back") {
  const std::vector<unsigned> usable = cores();
  if (usable.size() < 2) return;
  const auto before = threads();
  on_core(usable[1], [&] {
    const std::optional<uint64_t> ns = core_round_trip_ns(usable[0]);
    // A busy machine may give too little of both cores at once.
    if (ns) CHECK((*ns > 5 && *ns < 1'000'000));
  });
  CHECK(threads() == before);
}

TEST_CASE("messages go from one core to the other and back, the longest slower than a line") {
  const std::vector<unsigned> usable = cores();
  if (usable.size() < 2) return;
  on_core(usable[1], [&] {
    std::vector<uint64_t> latencies(300);
    for (const size_t bytes : {size_t{1}, size_t{64}, kMostHandedOver}) {
      CAPTURE(bytes);
      const size_t count = handovers(usable[0], bytes, {latencies, kLongNs});
      // A busy machine may take one of the cores away.
      if (count > 0) CHECK(latencies[0] > 5);
      CHECK(handovers(usable[0], bytes, {latencies, 0}) == 0);
    }
  });
}

TEST_CASE("a core that is not there, or not ours, has no distance and takes no messages") {
  on_core(cores().front(), [] {
    std::vector<uint64_t> latencies(1);
    CHECK(handovers(CPU_SETSIZE, 64, {latencies, kLongNs}) == 0);
    CHECK_FALSE(core_round_trip_ns(CPU_SETSIZE - 1));
    CHECK_FALSE(core_round_trip_ns(CPU_SETSIZE));
  });
}

TEST_CASE("a core that another thread, even the caller, keeps busy takes bounded time") {
  const std::vector<unsigned> usable = cores();
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    on_core(usable.front(), [&] {
      while (!stop) spin_pause();
    });
  });
  for (const unsigned own : {usable.front(), usable.back()}) {
    on_core(own, [&] {
      const uint64_t began = now_ns();
      core_round_trip_ns(usable.front());
      CHECK(now_ns() - began < kLongNs);
    });
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace drlnet::measure
