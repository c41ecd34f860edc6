// Two rings of messages in shared memory, one for each direction between two processes, both
// spinning. A message is copied in and copied out, and nothing else is done to it.
// Threading: one side of a pair is one thread's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "measure/loop.h"

namespace drlnet::measure {

class Ring {
 public:
  static constexpr size_t kMaxBytes = 8192;

  // False when it is full (push) or empty (pop). pop: the message's length, which `out` must hold.
  bool push(std::span<const std::byte> message);
  bool pop(std::span<std::byte> out, size_t& length);

 private:
  static constexpr uint64_t kSlots = 64;
  // Processors fetch lines of 64 bytes in pairs: an index to a pair.
  static constexpr size_t kApart = 128;

  struct Slot {
    uint32_t length;
    alignas(64) std::array<std::byte, kMaxBytes> bytes;
  };
  alignas(kApart) std::atomic<uint64_t> head_;  // messages ever pushed
  alignas(kApart) std::atomic<uint64_t> tail_;  // messages ever popped
  alignas(kApart) std::array<Slot, kSlots> slots_;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "it is shared between processes");

class RingPair {
 public:
  // Maps the memory file `fd`, which stays the caller's. Throws Error(transport).
  explicit RingPair(int fd);
  ~RingPair();
  RingPair(const RingPair&) = delete;
  RingPair& operator=(const RingPair&) = delete;

  // What the file must hold before it is mapped, as zeros.
  static size_t file_bytes();

  // Sends back what comes, for that long. Returns how many messages came.
  size_t echo(uint64_t for_ns);
  // Round trips of a message of that many bytes, each compared with what was sent after the loop's
  // time is taken. Throws Error(transport) when no answer comes within a second, or another one.
  size_t pings(size_t payload_bytes, const Loop& loop);

 private:
  struct Shared {
    Ring there, back;
  };
  Shared* shared_;
};

}  // namespace drlnet::measure
