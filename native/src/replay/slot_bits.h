// A bit for each slot. Threading: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace drlnet {

class SlotBits {
 public:
  explicit SlotBits(uint32_t slots) : words_(slots / kBits + 1) {}

  void set(uint32_t slot) { words_[slot / kBits] |= uint64_t{1} << slot % kBits; }
  void reset(uint32_t slot) { words_[slot / kBits] &= ~(uint64_t{1} << slot % kBits); }
  bool test(uint32_t slot) const { return (shifted(slot) & 1) != 0; }
  bool test_all(std::span<const uint32_t> slots) const {
    uint64_t all = 1;
    for (const uint32_t slot : slots) all &= shifted(slot);
    return all != 0;
  }

 private:
  static constexpr uint32_t kBits = 64;

  uint64_t shifted(uint32_t slot) const { return words_[slot / kBits] >> slot % kBits; }

  std::vector<uint64_t> words_;
};

}  // namespace drlnet
