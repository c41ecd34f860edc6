#include "sampler/priority_buckets.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace drlnet {
namespace {

constexpr uint32_t kMantissa = 1u << 8;  // values per octave

uint64_t mantissa_of(uint32_t bucket) { return kMantissa + bucket % kMantissa; }

}  // namespace

PriorityBuckets::PriorityBuckets(uint32_t slots)
    : lists_(kCount, slots),
      memory_((sizeof(uint32_t) + sizeof(uint16_t)) * slots),
      index_of_slot_(reinterpret_cast<uint32_t*>(memory_.data())),
      bucket_of_slot_(reinterpret_cast<uint16_t*>(index_of_slot_ + slots)) {}

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
  index_of_slot_[slot] = lists_.push(bucket, slot);
  bucket_of_slot_[slot] = static_cast<uint16_t>(bucket);
  add(bucket);
  ++size_;
}

void PriorityBuckets::remove(uint32_t slot) {
  const uint32_t bucket = bucket_of_slot_[slot], index = index_of_slot_[slot];
  const uint32_t last = lists_.pop(bucket);
  if (last != slot) {
    *lists_.at(bucket, index) = last;
    index_of_slot_[last] = index;
  }
  subtract(bucket);
  --size_;
}

void PriorityBuckets::move(uint32_t slot, uint32_t bucket) {
  if (bucket_of_slot_[slot] == bucket) return;
  remove(slot);
  insert(slot, bucket);
}

void PriorityBuckets::add(uint32_t bucket) {
  const uint32_t word = bucket / 64;
  filled_[word] |= uint64_t{1} << bucket % 64;
  filled_words_[word / 64] |= uint64_t{1} << word % 64;
  ++count_of_word_[word];
  mantissas_[bucket / kMantissa] += mantissa_of(bucket);
}

void PriorityBuckets::subtract(uint32_t bucket) {
  const uint32_t word = bucket / 64;
  if (lists_.size(bucket) == 0) filled_[word] &= ~(uint64_t{1} << bucket % 64);
  if (--count_of_word_[word] == 0) filled_words_[word / 64] &= ~(uint64_t{1} << word % 64);
  mantissas_[bucket / kMantissa] -= mantissa_of(bucket);
}

double PriorityBuckets::mass() const {
  double total = 0;
  for (uint32_t octave = 0; octave < kOctaves; ++octave) {
    if (mantissas_[octave] == 0) continue;
    total += static_cast<double>(mantissas_[octave]) * value_of(octave * kMantissa) / kMantissa;
  }
  return total;
}

uint64_t PriorityBuckets::count_below(uint32_t bucket) const {
  const uint32_t word = bucket / 64;
  uint64_t total =
      std::accumulate(count_of_word_.begin(), count_of_word_.begin() + word, uint64_t{0});
  for (uint32_t at = word * 64; at < bucket; ++at) total += lists_.size(at);
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
