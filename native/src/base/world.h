// The world that the core runs in: its clock, its secrets, and sleep. Nothing else in the core asks
// the kernel for them, so that another world.cc can take this one's place when a program is linked:
// there time passes and secrets come as a seed says. The network is transport/registry.cc, and the
// disk is storage/file.cc, which can be replaced in the same way. sim/ replaces all three.
//
// Every deadline and latency of the core is in nanoseconds of now_ns(): CLOCK_MONOTONIC's, read off
// the processor's time-stamp counter wherever the kernel keeps time by it as well. The kernel's own
// reading waits for all that the processor has under way, 20 to 40 ns in the middle of a request of
// a microsecond; the counter's does not.
// Threading: any thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <span>

namespace drlnet {

uint64_t kernel_now_ns();  // the kernel's own reading
uint64_t wall_s();         // since 1970
double process_cpu_s();    // of all threads of this process
uint64_t process_resident_bytes();

// 64 unpredictable bits: tokens, connection numbers, boot identities.
uint64_t random_secret();

// Sleeps until a descriptor has what it is polled for, or until then; a signal ends it, too. Passes
// over negative descriptors.
void sleep_on(std::span<pollfd> descriptors, uint64_t until_ns);
inline void sleep_until(uint64_t until_ns) { sleep_on({}, until_ns); }

// Descriptors that sleep_on() takes, readable from set to clear: WakeFd's. -1: none is left, errno
// says why. A signal handler may set one.
int open_wake_fd();
void set_wake_fd(int fd);
void clear_wake_fd(int fd);
void close_wake_fd(int fd);

#if defined(__x86_64__)

// The counter, set by the kernel's clock every 10 ms or so: neither a correction of that clock nor
// a suspended machine leads it astray. Never goes back within a thread; threads differ by some tens
// of nanoseconds. A world whose set() leaves `fresh_ticks_` at 0 gives every reading itself.
// Threading: one for each thread.
class TickClock {
 public:
  uint64_t now_ns() {
    const uint64_t since = __builtin_ia32_rdtsc() - ticks_;
    return since < fresh_ticks_ ? ns_ + (since * ns_per_tick_ >> kShift) : set();
  }

 private:
  static constexpr unsigned kShift = 32;

  uint64_t set();
  uint64_t promised(uint64_t kernel_ns);

  uint64_t ticks_ = 0, ns_ = 0;  // the last setting
  uint64_t ns_per_tick_ = 0;     // << kShift
  uint64_t fresh_ticks_ = 0;     // until the next one; 0: the rate is not known
};

// In the thread's static memory: elsewhere every reading would begin with a call that finds it.
// Not under the sanitizers: GCC's check for null reads the flags of an addition there, which
// linkers make an instruction that sets none.
#if !defined(__SANITIZE_ADDRESS__)
[[gnu::tls_model("initial-exec")]]
#endif
inline constinit thread_local TickClock tick_clock;
inline uint64_t now_ns() { return tick_clock.now_ns(); }

#else

uint64_t now_ns();

#endif

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
