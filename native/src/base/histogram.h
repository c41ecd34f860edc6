// A log-linear histogram of durations: 64 equal buckets per power of two, so that the middle of a
// bucket is within 0.8% of any value in it. Recording is O(1) without branches on the value's size.
// Threading: one writer; readers elsewhere may read counts that are a moment old.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace drlnet {

class Histogram {
 public:
  static constexpr uint32_t kSubBits = 6;
  static constexpr uint32_t kMaxBits = 50;  // 13 days in nanoseconds; longer is clamped
  static constexpr uint32_t kBuckets = (kMaxBits - kSubBits + 1) << kSubBits;

  void record(uint64_t value_ns) {
    add(buckets_[bucket_of(value_ns)], 1);
    add(count_, 1);
    add(sum_, value_ns);
    if (value_ns > max_.load(std::memory_order_relaxed)) {
      max_.store(value_ns, std::memory_order_relaxed);
    }
  }

  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  uint64_t sum_ns() const { return sum_.load(std::memory_order_relaxed); }
  uint64_t max_ns() const { return max_.load(std::memory_order_relaxed); }
  uint64_t bucket(uint32_t index) const { return buckets_[index].load(std::memory_order_relaxed); }

  // The value below which a share q of what was recorded lies, 0 when nothing was. O(kBuckets).
  uint64_t percentile_ns(double q) const {
    const uint64_t total = count();
    if (total == 0) return 0;
    const uint64_t rank = rank_of(q, total);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < kBuckets; ++i) {
      seen += bucket(i);
      if (seen > rank) return std::min(middle_of(i), max_ns());
    }
    return max_ns();
  }

  // The place, in order of size, of the value at share q of `count` values; count > 0. Compared as
  // doubles first: counts that come off the wire may be as large as they like.
  static uint64_t rank_of(double q, uint64_t count) {
    const double rank = q * static_cast<double>(count);
    if (!(rank < static_cast<double>(count))) return count - 1;
    return rank > 0 ? std::min(static_cast<uint64_t>(rank), count - 1) : 0;
  }

  static uint32_t bucket_of(uint64_t value) {
    if (value >> kMaxBits) value = (uint64_t{1} << kMaxBits) - 1;
    if (value < (1u << kSubBits)) return static_cast<uint32_t>(value);
    const uint32_t shift = static_cast<uint32_t>(std::bit_width(value)) - 1 - kSubBits;
    return (shift << kSubBits) + static_cast<uint32_t>(value >> shift);
  }

  static uint64_t middle_of(uint32_t index) {
    if (index < (2u << kSubBits)) return index;
    const uint32_t shift = (index >> kSubBits) - 1;
    const uint64_t low = static_cast<uint64_t>(index - (shift << kSubBits)) << shift;
    return low + ((uint64_t{1} << shift) >> 1);
  }

 private:
  static void add(std::atomic<uint64_t>& cell, uint64_t n) {
    cell.store(cell.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> count_{0}, sum_{0}, max_{0};
};

}  // namespace drlnet
