// Which items changed since a table's state was last saved, and the priorities as they were given.
// Threading: one thread. Nothing allocates after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "replay/slot_bits.h"

namespace drlnet {

class Unsaved {
 public:
  explicit Unsaved(uint32_t slots) : marked_(slots), priorities_(slots) { list_.reserve(slots); }
  static uint64_t memory_bytes(uint64_t slots) { return slots * 8 + slots / 8; }

  void mark(uint32_t slot) {
    if (marked_.test(slot)) return;
    marked_.set(slot);
    list_.push_back(slot);
  }
  void mark(uint32_t slot, float priority) {
    priorities_[slot] = priority;
    mark(slot);
  }
  void mark(std::span<const uint32_t> slots, std::span<const float> priorities) {
    for (size_t i = 0; i < slots.size(); ++i) mark(slots[i], priorities[i]);
  }
  float priority(uint32_t slot) const { return priorities_[slot]; }
  std::span<const uint32_t> list() const { return list_; }
  void clear() {
    for (const uint32_t slot : list_) marked_.reset(slot);
    list_.clear();
  }

 private:
  SlotBits marked_;
  std::vector<float> priorities_;
  std::vector<uint32_t> list_;
};

}  // namespace drlnet
