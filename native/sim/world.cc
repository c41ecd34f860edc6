#include "world.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/assert.h"
#include "base/worker.h"
#include "base/world.h"
#include "fiber.h"

namespace drlnet::sim {
namespace {

World* g_world = nullptr;
constexpr uint64_t kStepNs = 20;  // of time that passes with each look at the clock

}  // namespace

World::World(uint64_t seed) : random_(seed) {
  DRLNET_ASSERT(g_world == nullptr);
  g_world = this;
}

World::~World() { g_world = nullptr; }

World& World::current() {
  DRLNET_ASSERT(g_world != nullptr);
  return *g_world;
}

void World::at(uint64_t time_ns, std::function<void()> action) {
  queue_.push_back({std::max(time_ns, time_ns_), sequence_++, std::move(action)});
  std::push_heap(queue_.begin(), queue_.end());
}

std::shared_ptr<Process> World::make_process(const std::string& name, uint32_t host) {
  return std::make_shared<Process>(name, host, random_.bits());
}

void World::start(std::shared_ptr<Process> process, std::function<void()> body) {
  const auto fiber = std::make_shared<Fiber>(process, std::move(body));
  process->fibers.push_back(fiber);
  wake_at(*fiber, time_ns_);
}

void World::wake_at(Fiber& fiber, uint64_t time_ns) {
  at(time_ns, [this, fiber = fiber.shared_from_this(), sleep = fiber.sleeps] {
    if (!fiber->ended() && fiber->sleeps == sleep) resume(*fiber);
  });
}

void World::resume(Fiber& fiber) {
  for (const int descriptor : std::exchange(fiber.descriptors, {})) {
    const auto found = descriptors_.find(descriptor);
    if (found != descriptors_.end()) found->second.sleeper = nullptr;
  }
  ++fiber.sleeps;
  running_ = &fiber;
  fiber.go_on();
  running_ = nullptr;
  if (fiber.ended()) {
    std::erase_if(fiber.process().fibers, [&](const auto& one) { return one.get() == &fiber; });
  }
}

void World::kill(Process& process) {
  if (process.dead) return;
  process.dead = true;
  note("killed", process.host);
  if (process.on_death) process.on_death();
  for (const auto& fiber : process.fibers) {
    if (fiber.get() != running_) wake_at(*fiber, time_ns_);
  }
}

void World::kill_within(Process& process, uint64_t calls) { process.calls_left = calls; }

void World::jump_clock(Process& process, uint64_t ns) {
  process.ahead_ns += ns;
  jumped_ns_ += ns;
  note("clock jumps", process.host, ns);
  for (const auto& fiber : process.fibers) wake_at(*fiber, time_ns_);
}

void World::run(uint64_t end_ns, const std::function<bool()>& done) {
  while (!queue_.empty() && queue_.front().time_ns <= end_ns && !done()) {
    std::pop_heap(queue_.begin(), queue_.end());
    Event event = std::move(queue_.back());
    queue_.pop_back();
    time_ns_ = std::max(time_ns_, event.time_ns);
    event.action();
  }
}

Process* World::running() const { return running_ == nullptr ? nullptr : &running_->process(); }

void World::step() {
  Process* process = running();
  if (process == nullptr || process->calls_left == UINT64_MAX) return;
  if (process->calls_left-- > 0) return;
  process->calls_left = UINT64_MAX;
  kill(*process);
}

uint64_t World::read_clock() {
  step();
  time_ns_ += kStepNs;
  const Process* process = running();
  return time_ns_ + (process == nullptr ? 0 : process->ahead_ns);
}

uint64_t World::secret() {
  step();
  Process* process = running();
  return process == nullptr ? random_.bits() : process->secrets.bits();
}

void World::sleep(std::span<const int> descriptors, uint64_t until_ns) {
  DRLNET_ASSERT(running_ != nullptr);
  Fiber& fiber = *running_;
  step();
  const auto die = [&] {
    if (!fiber.process().dead) return false;
    if (std::uncaught_exceptions() == 0) throw Killed{};
    return true;  // it unwinds already
  };
  if (die()) return;
  for (const int descriptor : descriptors) {
    if (descriptors_.at(descriptor).set) return;
  }
  const uint64_t now = time_ns_ + fiber.process().ahead_ns;
  if (until_ns <= now) return;
  fiber.descriptors.assign(descriptors.begin(), descriptors.end());
  for (const int descriptor : descriptors) descriptors_.at(descriptor).sleeper = &fiber;
  wake_at(fiber, until_ns - fiber.process().ahead_ns);
  fiber.stop();
  die();
}

void World::wait_until(const bool& ended) {
  while (!ended) {
    DRLNET_ASSERT(running_ != nullptr);
    wake_at(*running_, time_ns_ + 1'000);
    running_->stop();
  }
}

int World::open_descriptor() {
  descriptors_.emplace(next_descriptor_, Descriptor{});
  return next_descriptor_++;
}

void World::set(int descriptor) {
  Descriptor& one = descriptors_.at(descriptor);
  one.set = true;
  if (one.sleeper != nullptr) wake_at(*std::exchange(one.sleeper, nullptr), time_ns_);
}

void World::clear(int descriptor) { descriptors_.at(descriptor).set = false; }

void World::note(const char* what, uint64_t a, uint64_t b, uint64_t c) {
  ++events_;
  for (const char* letter = what; *letter != 0; ++letter) {
    hash_ = hash_ * 31 + static_cast<uint64_t>(*letter);
  }
  for (const uint64_t word : {time_ns_, a, b, c}) {
    hash_ = splitmix64(hash_ + word + kSplitMixStep);
  }
  if (trace) {
    std::fprintf(stderr, "%12.6f ms  %s %llu %llu %llu\n", static_cast<double>(time_ns_) / 1e6,
                 what, static_cast<unsigned long long>(a), static_cast<unsigned long long>(b),
                 static_cast<unsigned long long>(c));
  }
}

}  // namespace drlnet::sim

namespace drlnet {

using sim::World;

uint64_t kernel_now_ns() { return World::current().read_clock(); }
uint64_t wall_s() { return World::current().wall_s(); }
double process_cpu_s() { return 0; }
uint64_t process_resident_bytes() { return 0; }
uint64_t random_secret() { return World::current().secret(); }

void sleep_on(std::span<pollfd> descriptors, uint64_t until_ns) {
  std::vector<int> waited;
  for (const pollfd& one : descriptors) {
    if (one.fd >= 0) waited.push_back(one.fd);
  }
  World::current().sleep(waited, until_ns);
}

int open_wake_fd() { return World::current().open_descriptor(); }
void set_wake_fd(int fd) { World::current().set(fd); }
void clear_wake_fd(int fd) { World::current().clear(fd); }
void close_wake_fd(int fd) { World::current().close_descriptor(fd); }

struct Worker::Thread {
  bool ended = false;
};
Worker::Worker(std::function<void()> body) : thread_(new Thread) {
  World& world = World::current();
  world.start(world.running()->shared_from_this(), [this, body = std::move(body)] {
    struct Ended {
      bool& ended;
      ~Ended() { ended = true; }
    } const ended{thread_->ended};
    body();
  });
}
Worker::~Worker() { World::current().wait_until(thread_->ended); }

#if defined(__x86_64__)
uint64_t TickClock::set() { return kernel_now_ns(); }
#else
uint64_t now_ns() { return kernel_now_ns(); }
#endif

}  // namespace drlnet
