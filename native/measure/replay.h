// A learner's access to prioritized replay, one interface over three places where it can be: in its
// own process, in a plain store (it draws for itself), or in the network (the server draws). What
// differs is what the comparison is about; tables, rows, layout and priorities are the same.
// Threading: one thread. Errors: those of client and server.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/world.h"
#include "measure/calls.h"
#include "measure/loop.h"
#include "sampler/sampler.h"
#include "server/server.h"

namespace drlnet::measure {

class Replay {
 public:
  explicit Replay(const TableSpec& spec);
  virtual ~Replay() = default;

  // A prioritized batch of as many items as `out` holds of the table's layout, with the
  // probabilities by which they were drawn.
  void sample(uint32_t batch, std::span<std::byte> out);
  virtual void update(std::span<const uint64_t> keys, std::span<const float> priorities) = 0;

  // Batches; batches with an update of their priorities each, drawn anew.
  size_t samples(uint32_t batch, std::span<std::byte> out, const Loop& loop);
  size_t cycles(uint32_t batch, std::span<std::byte> out, const Loop& loop);

 protected:
  virtual void draw(uint32_t batch, std::span<std::byte> out) = 0;

  const TableSpec spec_;
  const SampleLayout layout_;

 private:
  std::vector<float> errors_;  // what a learner would send back
};

class InNetworkReplay final : public Replay {
 public:
  InNetworkReplay(Client& client, uint32_t table, const TableSpec& spec);
  void update(std::span<const uint64_t> keys, std::span<const float> priorities) override;

 private:
  void draw(uint32_t batch, std::span<std::byte> out) override;

  Client& client_;
  uint32_t table_;
};

// Reads which priorities are new, draws by a tree of its own, reads the items, writes priorities
// back, from where the others (and its own tree, at the next draw) read them.
class StoreReplay final : public Replay {
 public:
  StoreReplay(Client& client, uint32_t table, const TableSpec& spec);
  void update(std::span<const uint64_t> keys, std::span<const float> priorities) override;

 private:
  void draw(uint32_t batch, std::span<std::byte> out) override;
  void take_changes();
  void forget(uint64_t oldest);
  uint32_t leaf_of(uint64_t key) const { return static_cast<uint32_t>(key & (keys_.size() - 1)); }

  Client& client_;
  uint32_t table_;
  PriorityChanges changes_;
  uint64_t oldest_ = 0;         // keys under it are forgotten
  std::vector<uint64_t> keys_;  // by leaf; kNoKey: none
  std::unique_ptr<Sampler> sampler_;
  Random random_;
  std::vector<uint32_t> slots_;       // scratch: drawn, or changed
  std::vector<float> probabilities_;  // of them, or new priorities
  std::vector<uint64_t> drawn_;
};

// A lock that threads get in the order in which they asked for it: one that gives it up and asks
// again comes behind those that wait. They spin for some time before they sleep.
class FairMutex {
 public:
  explicit FairMutex(uint64_t spin_ns) : spin_ns_(spin_ns) {}

  void lock() {
    const uint32_t ticket = next_++;
    if (serving_ == ticket) return;
    for (const uint64_t until = now_ns() + spin_ns_; now_ns() < until; spin_pause()) {
      if (serving_ == ticket) return;
    }
    for (uint32_t served = serving_; served != ticket; served = serving_) serving_.wait(served);
  }
  void unlock() {
    ++serving_;
    serving_.notify_all();
  }
  // Whether another thread waits for the thread that has it.
  bool contended() const { return next_ - serving_ > 1; }

 private:
  const uint64_t spin_ns_;
  std::atomic<uint32_t> next_{0}, serving_{0};
};

// In the server's own process: a thread pumps the server, and this one uses the table between two
// of its rounds. Actors reach the server at address().
class LocalReplay final : public Replay {
 public:
  // Opens the table. core: where the server's thread runs. Throws Error(transport, config).
  LocalReplay(const std::string& listen, Poll poll, const TableSpec& spec,
              std::optional<unsigned> core);
  ~LocalReplay() override;
  void update(std::span<const uint64_t> keys, std::span<const float> priorities) override;

  std::string address() const { return server_.addresses().front(); }
  // This process's own way in: to fill the table, and to meet actors.
  Session& session() { return *session_; }
  uint32_t table() const { return number_; }

 private:
  void draw(uint32_t batch, std::span<std::byte> out) override;
  void pump(Poll poll);
  void join();
  // Calls use(table) between two rounds. Throws what the server's thread died of.
  template <typename Use>
  void between_rounds(Use use);

  Server server_;
  FairMutex rounds_;
  std::atomic<bool> stopping_ = false;
  std::exception_ptr failure_;  // guarded by rounds_
  std::thread thread_;
  std::unique_ptr<Session> session_;
  uint32_t number_ = 0;
  DrawnBatch drawn_;
};

}  // namespace drlnet::measure
