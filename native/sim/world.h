// The simulated world: processes whose code runs on fibers of one thread, a clock that passes as
// the events do, and secrets from a seed. Its world.cc takes the place of base/world.cc.
// Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"

namespace drlnet::sim {

// Where a killed process would go on. Nothing but its fiber's end catches it.
struct Killed {};

// Promises broken by what is simulated.
[[noreturn]] void broken(const std::string& promise);
inline void require(bool kept, const std::string& promise) {
  if (!kept) broken(promise);
}

class Fiber;

struct Process : std::enable_shared_from_this<Process> {
  Process(std::string process_name, uint32_t process_host, uint64_t seed)
      : name(std::move(process_name)), host(process_host), secrets(seed) {}

  const std::string name;
  const uint32_t host;  // on the network
  Random secrets;
  uint64_t ahead_ns = 0;                         // its clock, of the world's
  bool dead = false;                             // nothing that it does has an effect any more
  uint64_t calls_left = UINT64_MAX;              // of the world's functions: then it dies
  uint64_t disk_calls_left = UINT64_MAX;         // likewise
  std::vector<std::shared_ptr<Fiber>> fibers{};  // that have not ended
  std::function<void()> on_death{};
};

class World {
 public:
  explicit World(uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static World& current();

  uint64_t time_ns() const { return time_ns_; }
  void at(uint64_t time_ns, std::function<void()> action);
  std::shared_ptr<Process> make_process(const std::string& name, uint32_t host);
  void start(std::shared_ptr<Process> process, std::function<void()> body);
  // Its fibers unwind, one after another, as soon as they can.
  void kill(Process& process);
  void kill_within(Process& process, uint64_t calls);
  // All sleepers of the process look at their clocks.
  void jump_clock(Process& process, uint64_t ns);
  void jump_wall(int64_t s) { wall_s_ += static_cast<uint64_t>(s); }
  // What all jumps of clocks come to.
  uint64_t jumped_ns() const { return jumped_ns_; }
  // Until nothing is left to do before that time, or `done` says so.
  void run(uint64_t end_ns, const std::function<bool()>& done);

  // For what a process does: its code calls them through base/world.h and the network.
  Process* running() const;
  uint64_t read_clock();
  uint64_t wall_s() const { return wall_s_ + time_ns_ / 1'000'000'000; }
  uint64_t secret();
  void sleep(std::span<const int> descriptors, uint64_t until_ns);
  // Waits for it even where the process dies, or has.
  void wait_until(const bool& ended);
  // One step of a process, at which it may die.
  void step();
  int open_descriptor();
  void close_descriptor(int descriptor) { descriptors_.erase(descriptor); }
  void set(int descriptor);
  void clear(int descriptor);

  // Everything that happens, for the trace's hash; with a trace, for people.
  void note(const char* what, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);
  uint64_t hash() const { return hash_; }
  uint64_t events() const { return events_; }
  bool trace = false;

  // How often a rare branch was taken.
  void mark(const std::string& name, uint64_t times = 1) { marks_[name] += times; }
  const std::map<std::string, uint64_t>& marks() const { return marks_; }

 private:
  struct Event {
    uint64_t time_ns, sequence;
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return time_ns != other.time_ns ? time_ns > other.time_ns : sequence > other.sequence;
    }
  };
  struct Descriptor {
    bool set = false;
    Fiber* sleeper = nullptr;
  };

  void wake_at(Fiber& fiber, uint64_t time_ns);
  void resume(Fiber& fiber);

  uint64_t time_ns_ = 1'000'000'000, wall_s_ = 1'800'000'000;
  uint64_t sequence_ = 0, hash_ = 0, events_ = 0, jumped_ns_ = 0;
  Random random_;
  std::vector<Event> queue_;  // a heap
  Fiber* running_ = nullptr;
  std::map<int, Descriptor> descriptors_;
  int next_descriptor_ = 1 << 20;
  std::map<std::string, uint64_t> marks_;
};

}  // namespace drlnet::sim
