// Monotonic time. Every deadline and latency of the core is in these nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace drlnet {

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

// Tells the processor that this is a spin loop. Never sched_yield: under load it gave the core away
// for 8 ms.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace drlnet
