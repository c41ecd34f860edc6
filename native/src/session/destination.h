// Where a reply's bytes go: into the caller's memory, one after another, but that some of them lie
// there twice.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace drlnet {

// The `bytes` bytes of the reply that end at `first`, first + every, ..., `count` times, come once
// more right behind themselves.
struct Repeat {
  uint64_t first, every, count, bytes;
};

class Destination {
 public:
  Destination() = default;
  // No repeats: the reply is as long as the memory.
  template <std::convertible_to<std::span<std::byte>> Memory>
  Destination(Memory&& memory) : memory_(memory), reply_bytes_(memory_.size()) {}
  // repeats: in their order, of bytes that do not overlap; they outlive us.
  Destination(std::span<std::byte> memory, std::span<const Repeat> repeats)
      : memory_(memory), repeats_(repeats), reply_bytes_(memory.size()) {
    for (const Repeat& repeat : repeats) reply_bytes_ -= repeat.count * repeat.bytes;
  }

  bool empty() const { return memory_.empty(); }
  uint64_t reply_bytes() const { return reply_bytes_; }
  std::span<std::byte> memory() const { return memory_; }

  void write(uint64_t offset, std::span<const std::byte> reply) const {
    visit(offset, reply.size(), [&](uint64_t at, std::byte* place, size_t bytes, Again again) {
      std::memcpy(place, reply.data() + at, bytes);
      if (again.begin < bytes) {
        std::memcpy(place + again.begin + again.distance, reply.data() + at + again.begin,
                    bytes - again.begin);
      }
    });
  }
  void read(uint64_t offset, std::span<std::byte> reply) const {
    visit(offset, reply.size(), [&](uint64_t at, const std::byte* place, size_t bytes, Again) {
      std::memcpy(reply.data() + at, place, bytes);
    });
  }

 private:
  // Of a piece: the bytes from `begin` on lie once more so far behind.
  struct Again {
    uint64_t begin, distance;
  };

  // Calls visit(bytes of the range before it, place, bytes, again) for each piece of the reply's
  // range that is one in memory.
  template <typename Visit>
  void visit(uint64_t offset, size_t bytes, Visit visit) const {
    const uint64_t end = offset + bytes;
    for (uint64_t at = offset; at < end;) {
      uint64_t repeated = 0, next = UINT64_MAX, length = 0;  // bytes so far; the next repeat
      for (const Repeat& repeat : repeats_) {
        const uint64_t passed =
            at < repeat.first ? 0 : std::min((at - repeat.first) / repeat.every + 1, repeat.count);
        repeated += passed * repeat.bytes;
        if (passed == repeat.count) continue;
        next = repeat.first + passed * repeat.every;
        length = repeat.bytes;
        break;
      }
      const uint64_t piece = std::min(end, next) - at;
      const uint64_t begin = next - length;
      visit(at - offset, memory_.data() + at + repeated, piece,
            Again{begin - std::min(begin, at), length});
      at += piece;
    }
  }

  std::span<std::byte> memory_;
  std::span<const Repeat> repeats_;
  uint64_t reply_bytes_ = 0;
};

}  // namespace drlnet
