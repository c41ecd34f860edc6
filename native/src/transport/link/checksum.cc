#include "transport/link/checksum.h"

namespace drlnet::link {

uint64_t sum_words(const std::byte* data, size_t bytes) {
  // Words of 64 bits, halves apart: a loop that the compiler turns into vector instructions, and
  // that never carries (a datagram has fewer than 2^32 words).
  uint64_t low = 0, high = 0;
  const size_t words = bytes / 8;
  for (size_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, data + 8 * i, sizeof word);
    low += word & 0xffffffff;
    high += word >> 32;
  }
  if (const size_t rest = bytes % 8) {
    uint64_t word = 0;  // an odd length is filled up with zero
    std::memcpy(&word, data + 8 * words, rest);
    low += word & 0xffffffff;
    high += word >> 32;
  }
  return low + high;
}

}  // namespace drlnet::link
