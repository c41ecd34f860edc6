// Slots by priority, for searches by value. A priority is known by the 8 bits of its exponent and
// the 8 leading bits of its mantissa, rounded to nearest (within 0.2%): 2^16 buckets in the order
// of their values. Insert, remove and move are O(1) but for the height of a list (see SlotLists);
// the next filled bucket and the mass are found in O(1), too.
// Threading: one thread. Memory: 12 bytes per slot, under 512 per filled bucket, 0.8 MB at most.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "base/mapping.h"
#include "sampler/slot_lists.h"

namespace drlnet {

class PriorityBuckets {
 public:
  static constexpr uint32_t kCount = 1u << 16;

  explicit PriorityBuckets(uint32_t slots);

  // The bucket of a priority within float32's normal range.
  static uint32_t bucket_of(float priority);
  static double value_of(uint32_t bucket) {
    return static_cast<double>(std::bit_cast<float>(bucket << kDropped));
  }
  // The lowest bucket of at least this value; kCount when there is none.
  static uint32_t first_from(double value);

  void insert(uint32_t slot, uint32_t bucket);
  void remove(uint32_t slot);
  // One after the other: a slot that is named twice ends in the later bucket.
  void move(std::span<const uint32_t> slots, std::span<const uint32_t> buckets);

  uint64_t size() const { return size_; }
  uint32_t bucket_at(uint32_t slot) const { return places_[slot].bucket; }  // of a present slot
  double mass() const;  // the sum of the rounded priorities: exact, whatever came and went
  uint32_t count(uint32_t bucket) const { return lists_.size(bucket); }
  const uint32_t* slot_at(uint32_t bucket, uint32_t index) const {
    return lists_.at(bucket, index);
  }

  // The nearest filled bucket from `bucket` on, upward or downward; kCount when there is none.
  uint32_t filled_from(uint32_t bucket) const;
  uint32_t filled_below(uint32_t bucket) const;  // under `bucket`, not it
  // Calls visit with the filled buckets of [first, end), ascending.
  template <typename Visit>
  void each_filled(uint32_t first, uint32_t end, Visit visit) const {
    for (uint32_t bucket = filled_from(first); bucket < end;) {
      const uint32_t base = bucket / 64 * 64;
      for (uint64_t rest = filled_[base / 64] >> bucket % 64 << bucket % 64; rest != 0;
           rest &= rest - 1) {
        bucket = base + static_cast<uint32_t>(std::countr_zero(rest));
        if (bucket >= end) return;
        visit(bucket);
      }
      bucket = filled_from(base + 64);
    }
  }

 private:
  static constexpr uint32_t kDropped = 15;  // bits of a float's mantissa
  static constexpr uint32_t kWords = kCount / 64;
  static constexpr uint32_t kOctaves = 256;

  // Where a slot is: the bucket, and the index within its list.
  struct Place {
    uint32_t index, bucket;
  };

  // What insert() and remove() do but for the number of items.
  void add(uint32_t slot, uint32_t bucket);
  void take(uint32_t slot);

  SlotLists lists_;
  Mapping memory_;
  Place* places_;  // by slot
  uint64_t size_ = 0;
  std::array<uint64_t, kWords> filled_{};             // a bit per bucket
  std::array<uint64_t, kWords / 64> filled_words_{};  // a bit per word of these
  std::array<uint64_t, kOctaves> mantissas_{};        // their sum, in units of the last bit
};

}  // namespace drlnet
