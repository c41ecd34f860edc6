// The Internet checksum (RFC 1071), of ranges that follow each other in any number.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace drlnet::link {

constexpr uint16_t network_order(uint16_t host_order) {
  if constexpr (std::endian::native == std::endian::big) return host_order;
  return static_cast<uint16_t>(host_order << 8 | host_order >> 8);
}

// The sum is of words as they lie in memory, whatever the machine's byte order: RFC 1071, section
// 2 (B). 64 bits take 2^32 such words before they overflow.
uint64_t sum_words(const std::byte* data, size_t bytes);

class Checksum {
 public:
  void add(const void* data, size_t bytes) {
    const uint64_t sum = sum_words(static_cast<const std::byte*>(data), bytes);
    // Behind an odd number of bytes every byte stands in the other half of its word.
    sum_ += odd_ ? std::rotl(folded(sum), 8) : sum;
    odd_ ^= bytes % 2 != 0;
  }
  // For short ranges of a length known where it is compiled, a multiple of 4, before any odd one.
  template <size_t bytes>
  void add_short(const void* data) {
    static_assert(bytes % 4 == 0);
    for (size_t i = 0; i < bytes; i += 4) {
      uint32_t word;
      std::memcpy(&word, static_cast<const std::byte*>(data) + i, sizeof word);
      sum_ += word;
    }
  }
  void add(uint16_t host_order) { sum_ += network_order(host_order); }

  // True when what was added holds its own checksum.
  bool holds() const { return folded(sum_) == 0xffff; }
  // What to store, in the byte order of the network.
  uint16_t complement() const { return static_cast<uint16_t>(~folded(sum_)); }

 private:
  static uint16_t folded(uint64_t words) {
    uint64_t sum = (words >> 32) + (words & 0xffffffff);
    sum = (sum >> 32) + (sum & 0xffffffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return static_cast<uint16_t>(sum);
  }
  uint64_t sum_ = 0;
  bool odd_ = false;  // so far
};

}  // namespace drlnet::link
