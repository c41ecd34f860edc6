#include "sampler/priority_buckets.h"

#include <algorithm>
#include <limits>

namespace drlnet {
namespace {

constexpr size_t kAhead = 16;            // slots between the stages of a move
constexpr uint32_t kMantissa = 1u << 8;  // values per octave

uint64_t mantissa_of(uint32_t bucket) { return kMantissa + bucket % kMantissa; }

}  // namespace

PriorityBuckets::PriorityBuckets(uint32_t slots)
    : lists_(kCount, slots),
      memory_(sizeof(Place) * slots),
      places_(reinterpret_cast<Place*>(memory_.data())) {}

uint32_t PriorityBuckets::bucket_of(float priority) {
  constexpr uint32_t kHighest =
      std::bit_cast<uint32_t>(std::numeric_limits<float>::max()) >> kDropped;
  const uint32_t nearest = (std::bit_cast<uint32_t>(priority) + (1u << (kDropped - 1))) >> kDropped;
  return std::min(nearest, kHighest);
}

uint32_t PriorityBuckets::first_from(double value) {
  if (!(value > 0)) return 0;
  if (value > static_cast<double>(std::numeric_limits<float>::max())) return kCount;
  // The conversion rounds to nearest, by far less than a bucket.
  const uint32_t near = std::bit_cast<uint32_t>(static_cast<float>(value)) >> kDropped;
  return near + (value_of(near) < value);
}

void PriorityBuckets::insert(uint32_t slot, uint32_t bucket) {
  add(slot, bucket);
  ++size_;
}

void PriorityBuckets::remove(uint32_t slot) {
  take(slot);
  --size_;
}

// Every slot passes four stages, kAhead slots apart, so that what the next one reads is on its way
// while others are worked on: its place; what that names in the lists, and the lists' ends; the
// place of the list's last slot, which will fill the gap; the move. Moves in between make some of
// it wrong. That costs a miss, no more.
void PriorityBuckets::move(std::span<const uint32_t> slots, std::span<const uint32_t> buckets) {
  const size_t n = slots.size();
  for (size_t step = 0; step < n + 3 * kAhead; ++step) {
    if (step < n) __builtin_prefetch(&places_[slots[step]], 1);
    if (const size_t i = step - kAhead; i < n) {  // false for a difference below 0, too
      const auto [index, bucket] = places_[slots[i]];
      lists_.prefetch_end(bucket);
      lists_.prefetch_end(buckets[i]);
      __builtin_prefetch(lists_.at(bucket, index), 1);
    }
    if (const size_t i = step - 2 * kAhead; i < n) {
      __builtin_prefetch(&places_[lists_.last(places_[slots[i]].bucket)], 1);
    }
    if (const size_t i = step - 3 * kAhead; i < n && places_[slots[i]].bucket != buckets[i]) {
      take(slots[i]);
      add(slots[i], buckets[i]);
    }
  }
}

void PriorityBuckets::add(uint32_t slot, uint32_t bucket) {
  const uint32_t index = lists_.push(bucket, slot);
  places_[slot] = {index, bucket};
  mantissas_[bucket / kMantissa] += mantissa_of(bucket);
  if (index > 0) [[likely]]
    return;
  const uint32_t word = bucket / 64;
  filled_[word] |= uint64_t{1} << bucket % 64;
  filled_words_[word / 64] |= uint64_t{1} << word % 64;
}

void PriorityBuckets::take(uint32_t slot) {
  const auto [index, bucket] = places_[slot];
  uint32_t& gap = *lists_.at(bucket, index);
  const uint32_t last = lists_.pop(bucket);
  if (last != slot) {
    gap = last;
    places_[last].index = index;
  }
  mantissas_[bucket / kMantissa] -= mantissa_of(bucket);
  if (lists_.size(bucket) > 0) [[likely]]
    return;
  const uint32_t word = bucket / 64;
  filled_[word] &= ~(uint64_t{1} << bucket % 64);
  if (filled_[word] == 0) filled_words_[word / 64] &= ~(uint64_t{1} << word % 64);
}

double PriorityBuckets::mass() const {
  double total = 0;
  for (uint32_t octave = 0; octave < kOctaves; ++octave) {
    if (mantissas_[octave] == 0) continue;
    total += static_cast<double>(mantissas_[octave]) * value_of(octave * kMantissa) / kMantissa;
  }
  return total;
}

uint32_t PriorityBuckets::filled_from(uint32_t bucket) const {
  if (bucket >= kCount) return kCount;
  uint32_t word = bucket / 64;
  if (const uint64_t rest = filled_[word] >> bucket % 64; rest != 0) {
    return bucket + static_cast<uint32_t>(std::countr_zero(rest));
  }
  if (++word == kWords) return kCount;
  uint32_t block = word / 64;
  uint64_t words = filled_words_[block] >> word % 64 << word % 64;
  while (words == 0) {
    if (++block == filled_words_.size()) return kCount;
    words = filled_words_[block];
  }
  word = block * 64 + static_cast<uint32_t>(std::countr_zero(words));
  return word * 64 + static_cast<uint32_t>(std::countr_zero(filled_[word]));
}

uint32_t PriorityBuckets::filled_below(uint32_t bucket) const {
  if (bucket == 0) return kCount;
  --bucket;
  uint32_t word = bucket / 64;
  if (const uint64_t rest = filled_[word] << (63 - bucket % 64); rest != 0) {
    return bucket - static_cast<uint32_t>(std::countl_zero(rest));
  }
  if (word-- == 0) return kCount;
  uint32_t block = word / 64;
  uint64_t words = filled_words_[block] << (63 - word % 64) >> (63 - word % 64);
  while (words == 0) {
    if (block-- == 0) return kCount;
    words = filled_words_[block];
  }
  word = block * 64 + 63 - static_cast<uint32_t>(std::countl_zero(words));
  return word * 64 + 63 - static_cast<uint32_t>(std::countl_zero(filled_[word]));
}

}  // namespace drlnet
