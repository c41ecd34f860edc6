// Which fragments of a message have arrived.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "wire/frame.h"

namespace drlnet {

class Fragments {
 public:
  void begin(uint32_t total_bytes, uint32_t fragment_bytes) {
    fragment_bytes_ = fragment_bytes;
    total_bytes_ = total_bytes;
    // Most messages are one fragment: no division and no bitmap for them, here and below.
    count_ = missing_ = 1;
    if (total_bytes <= fragment_bytes) return;
    count_ = missing_ = (total_bytes + fragment_bytes - 1) / fragment_bytes;
    words_.assign((count_ + 63) / 64, 0);
  }
  // Whether offset and length are those of one of our fragments.
  bool fits(uint32_t offset, uint32_t length) const {
    if (count_ == 1) return offset == 0 && length == total_bytes_;
    return offset % fragment_bytes_ == 0 && offset / fragment_bytes_ < count_ &&
           length == length_of(offset / fragment_bytes_);
  }
  // True when that fragment was missing.
  bool add(uint32_t offset) {
    if (count_ == 1) return std::exchange(missing_, 0) != 0;
    const uint32_t index = offset / fragment_bytes_;
    uint64_t& word = words_[index / 64];
    const uint64_t bit = uint64_t{1} << (index % 64);
    if (word & bit) return false;
    word |= bit;
    --missing_;
    return true;
  }
  bool has(uint32_t index) const {
    if (count_ == 1) return missing_ == 0;
    return (words_[index / 64] >> (index % 64)) & 1;
  }
  bool complete() const { return missing_ == 0; }
  uint32_t count() const { return count_; }
  uint32_t offset_of(uint32_t index) const { return index * fragment_bytes_; }
  uint32_t length_of(uint32_t index) const {
    return std::min(fragment_bytes_, total_bytes_ - offset_of(index));
  }
  // Words of the bitmap of those that are there.
  uint64_t word(size_t i) const {
    if (count_ == 1) return i == 0 && missing_ == 0 ? 1 : 0;
    return i < words_.size() ? words_[i] : 0;
  }

 private:
  uint32_t fragment_bytes_ = 1, total_bytes_ = 0, count_ = 0, missing_ = 0;
  std::vector<uint64_t> words_;  // keeps its room, so that begin() allocates only for a new maximum
};

}  // namespace drlnet
