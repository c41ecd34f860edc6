#include "base/world.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/worker.h"

namespace drlnet {
namespace {

uint64_t read_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

uint64_t kernel_now_ns() { return read_ns(CLOCK_MONOTONIC); }
uint64_t wall_s() { return read_ns(CLOCK_REALTIME) / 1'000'000'000; }
double process_cpu_s() { return static_cast<double>(read_ns(CLOCK_PROCESS_CPUTIME_ID)) / 1e9; }

uint64_t process_resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t random_secret() {
  uint64_t value = 0;
  DRLNET_ASSERT(getrandom(&value, sizeof value, 0) == sizeof value);
  return value;
}

void sleep_on(std::span<pollfd> descriptors, uint64_t until_ns) {
  const uint64_t now = now_ns();
  if (until_ns <= now) return;
  const uint64_t left = until_ns - now;
  const timespec timeout{static_cast<time_t>(left / 1'000'000'000),
                         static_cast<long>(left % 1'000'000'000)};
  ::ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
}

int open_wake_fd() { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

void set_wake_fd(int fd) {
  // Only an eventfd at its maximum refuses, and that one is readable.
  DRLNET_ASSERT(eventfd_write(fd, 1) == 0 || errno == EAGAIN);
}

void clear_wake_fd(int fd) {
  eventfd_t ignored;
  eventfd_read(fd, &ignored);  // fails when it was not set: as good as read
}

void close_wake_fd(int fd) { close(fd); }

struct Worker::Thread {
  std::jthread thread;  // its destructor waits
};
Worker::Worker(std::function<void()> body) : thread_(new Thread{std::jthread(std::move(body))}) {}
Worker::~Worker() = default;

#if defined(__x86_64__)

namespace {

constexpr uint64_t kFreshNs = 10'000'000;
// A rate is taken over this span: both readings are some 20 ns from their counts.
constexpr uint64_t kLeastNs = 1'000'000, kMostNs = 1'000'000'000;
constexpr uint64_t kApartTicks = 1'000;  // a reading with more around it was interrupted

// Where the kernel found the counter steady, and the same on all processors.
bool kernel_counts_ticks() {
  static const bool does = [] {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string name;
    return file >> name && name == "tsc";
  }();
  return does;
}

struct Reading {
  uint64_t ticks, ns;
};

std::optional<Reading> read_both() {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = __builtin_ia32_rdtsc();
    const uint64_t ns = kernel_now_ns();
    const uint64_t apart = __builtin_ia32_rdtsc() - before;
    if (apart < kApartTicks) return Reading{before + apart / 2, ns};
  }
  return std::nullopt;
}

}  // namespace

uint64_t TickClock::set() {
  if (!kernel_counts_ticks()) return kernel_now_ns();
  const auto reading = read_both();
  if (!reading) return promised(kernel_now_ns());  // the next call tries again
  const uint64_t now = promised(reading->ns);
  const uint64_t ticks = reading->ticks - ticks_, ns = now - ns_;
  if (ticks_ != 0 && ns < kLeastNs) return now;
  // After a pause the rate is taken anew: the machine may have been suspended.
  const bool steady = ticks_ != 0 && ns <= kMostNs && reading->ticks > ticks_;
  ns_per_tick_ = steady ? (ns << kShift) / ticks : 0;
  fresh_ticks_ = steady ? (kFreshNs << kShift) / ns_per_tick_ : 0;
  ticks_ = reading->ticks;
  return ns_ = now;
}

// What we say next: the kernel's time, but not less than we may have said already.
uint64_t TickClock::promised(uint64_t kernel_ns) {
  if (fresh_ticks_ == 0) return std::max(kernel_ns, ns_);
  return std::max(kernel_ns, ns_ + (fresh_ticks_ * ns_per_tick_ >> kShift));
}

#else

uint64_t now_ns() { return kernel_now_ns(); }

#endif

}  // namespace drlnet
