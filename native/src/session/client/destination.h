// Where a reply's bytes go: into the caller's memory, one after another, but that some of them lie
// there twice; or run by run to places of their own.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace drlnet {

// The `bytes` bytes of the reply that end at `first`, first + every, ..., `count` times, come once
// more right behind themselves.
struct Repeat {
  uint64_t first, every, count, bytes;
};

struct Places;

class Destination {
 public:
  Destination() = default;
  // No repeats: the reply is as long as the memory.
  template <std::convertible_to<std::span<std::byte>> Memory>
  Destination(Memory&& memory) : memory_(memory), reply_bytes_(memory_.size()) {}
  // repeats: in their order, of bytes that do not overlap; they outlive us.
  Destination(std::span<std::byte> memory, std::span<const Repeat> repeats);
  // They outlive us.
  Destination(const Places& places);

  bool empty() const { return reply_bytes_ == 0; }
  uint64_t reply_bytes() const { return reply_bytes_; }
  std::span<std::byte> memory() const { return memory_; }  // none of places

  // Other threads may read it behind a streaming_fence().
  void write(uint64_t offset, std::span<const std::byte> reply) const;
  void read(uint64_t offset, std::span<std::byte> reply) const;  // what has been written
  // Appends where those bytes of the reply are to lie to `parts`, as far as its room lasts. False
  // where it does not, or some of them have no place.
  bool locate(uint64_t offset, size_t bytes, std::vector<std::span<std::byte>>& parts) const;
  // write() of bytes that lie there already: those that lie there twice.
  void repeat(uint64_t offset, size_t bytes) const;

 private:
  // In a piece, the bytes from `begin` on lie once more so far behind.
  struct Again {
    uint64_t begin, distance;
  };

  void put(std::byte* to, const std::byte* from, size_t bytes) const;
  template <typename Visit>
  void visit(uint64_t offset, size_t bytes, Visit visit) const;

  std::span<std::byte> memory_;
  std::span<const Repeat> repeats_;
  const Places* places_ = nullptr;
  uint64_t reply_bytes_ = 0;
};

// Runs of a reply in their order; bytes that are of none are dropped.
struct Places {
  struct Run {
    uint64_t offset;  // within the reply
    std::span<std::byte> memory;
    Repeat repeat{};  // count 0: nothing lies twice. Its bytes are counted from the run's first.

    Destination destination() const { return {memory, {&repeat, repeat.count == 0 ? 0u : 1u}}; }
  };
  std::vector<Run> runs;
  uint64_t reply_bytes = 0;
};

}  // namespace drlnet
