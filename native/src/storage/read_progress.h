// How far a state has been read. Threading: one thread reads it, any other looks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/error.h"

namespace drlnet {

class ReadProgress {
 public:
  explicit ReadProgress(uint64_t total = 0) : total_(total) {}

  // Those that are to be read, or passed over.
  uint64_t total() const { return total_; }
  uint64_t bytes() const { return std::min(bytes_.load(std::memory_order_relaxed), total_); }
  void give_up() { given_up_.store(true, std::memory_order_relaxed); }

  // For the thread that reads: as many more. Throws Error(config) once it is to give up.
  void add(uint64_t bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (given_up_.load(std::memory_order_relaxed)) {
      throw Error(Status::config, "the state was not read to its end", "");
    }
  }

 private:
  const uint64_t total_;
  std::atomic<uint64_t> bytes_{
      0};  // some twice, where an older record takes the newest one's place
  std::atomic<bool> given_up_{false};
};

}  // namespace drlnet
