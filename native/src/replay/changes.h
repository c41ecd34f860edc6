// The slots of items that changed, one change after another: what is new to a client that keeps
// priorities of its own. A log in a ring: an update only writes on, and a question finds
// what he has not heard of at once. Threading: one thread. Nothing allocates after construction.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/mapping.h"
#include "base/prefetch.h"

namespace drlnet {

class Changes {
 public:
  // first: the number of the change before them all. Numbers of an earlier life lie under it.
  Changes(uint32_t slots, uint64_t first)
      : memory_(memory_bytes(slots)),
        log_(reinterpret_cast<uint32_t*>(memory_.data())),
        size_(memory_bytes(slots) / sizeof(uint32_t)),
        first_(first),
        count_(first) {}

  // Each slot twice: a client that was told of all has as many changes to go on reading.
  static uint64_t memory_bytes(uint32_t slots) {
    return std::bit_ceil(2 * uint64_t{slots}) * sizeof(uint32_t);
  }

  // These changed, in this order.
  void add(std::span<const uint32_t> slots) {
    while (!slots.empty()) {
      const uint64_t at = count_ & (size_ - 1);
      const auto part = slots.first(std::min<uint64_t>(slots.size(), size_ - at));
      std::memcpy(log_ + at, part.data(), part.size_bytes());
      count_ += part.size();
      slots = slots.subspan(part.size());
      fetch_next(part.size_bytes());
    }
  }

  // Whether all that changed after the change numbered `since` is here still; no for a number that
  // no change here has.
  bool reaches(uint64_t since) const {
    return since >= first_ && since <= count_ && count_ - since <= size_;
  }

  // Calls visit(slot) for each change after the one numbered `since`, oldest first, `most` at most.
  // Returns the number of the last one that it visited (`since` when there is none).
  // reaches(since).
  template <typename Visit>
  uint64_t visit(uint64_t since, uint32_t most, Visit visit) const {
    const uint64_t to = std::min(count_, since + most);
    for (uint64_t at = since; at < to; ++at) visit(log_[at & (size_ - 1)]);
    return to;
  }

  uint64_t count() const { return count_; }  // the newest one's number

 private:
  // As many as came last. Written a whole round of the log ago, they lie in no cache that is near,
  // and the answer to an update, which is written behind them, would wait.
  void fetch_next(size_t bytes) const {
    const uint64_t at = count_ & (size_ - 1);
    const size_t most = (size_ - at) * sizeof(uint32_t);
    prefetch_to_write(reinterpret_cast<const std::byte*>(log_ + at),
                      std::min(most, bytes + kLineBytes));
  }

  Mapping memory_;
  uint32_t* log_;
  uint64_t size_;  // a power of two
  uint64_t first_, count_;
};

}  // namespace drlnet
