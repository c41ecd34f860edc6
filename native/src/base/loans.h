// Long pieces of a message that stay where they lie until it is sent: the code that copies the
// message anyway (a kernel, a driver of shared memory) copies them from there, once instead of
// twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace drlnet {

// `bytes` bytes of a buffer that are not at `place`, where they belong, but at `from`.
struct Loan {
  std::byte* place;
  const std::byte* from;
  size_t bytes;
};

class Loans {
 public:
  static constexpr size_t kMost = 64;  // a KiB each of the longest frame
  // Below that a copy costs less than one more piece to send.
  static constexpr size_t kMinBytes = 512;

  // Makes `bytes` bytes at `from` those of `place`: by a loan where they are many and there is room
  // for one, else by a copy. Places ascend and do not overlap.
  void put(std::byte* place, const std::byte* from, size_t bytes) {
    if (bytes < kMinBytes || count_ == kMost) {
      std::memcpy(place, from, bytes);
    } else {
      list_[count_++] = {place, from, bytes};
    }
  }
  std::span<const Loan> all() const { return {list_.data(), count_}; }
  bool empty() const { return count_ == 0; }
  void clear() { count_ = 0; }

  // Copies what was lent to its places. Loans that stand may be copied out more than once.
  void copy_out() const {
    for (const Loan& loan : all()) std::memcpy(loan.place, loan.from, loan.bytes);
  }

 private:
  size_t count_ = 0;  // in front: of most messages nothing else is looked at
  std::array<Loan, kMost> list_;
};

}  // namespace drlnet
