// Items as servers and clients name them: streams, keys, priorities, and what changed of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace drlnet {

// A stream's lease.
struct Lease {
  uint32_t ordinal, epoch;
  uint64_t token;      // resumes the stream from anywhere; unpredictable
  uint64_t next_step;  // the step that the server expects
};
static_assert(sizeof(Lease) == 24);
struct StreamName {
  uint32_t ordinal, epoch;
  uint64_t token;
};

constexpr uint64_t kNoKey = ~uint64_t{0};
// A key: shard (8 bits) | epoch (16) | number (40). Numbers only grow; slot = number mod ring size.
// The table's epoch (its server's start) lies above the number, so that keys grow over restarts
// too.
constexpr int kKeyNumberBits = 40;
constexpr int kKeyShardShift = kKeyNumberBits + 16;
constexpr uint64_t number_of(uint64_t key) { return key & ((uint64_t{1} << kKeyNumberBits) - 1); }

// Which part of a table's changes an answer tells.
struct ChangesHeader {
  uint64_t next;          // the `since` to go on with
  uint64_t oldest, head;  // keys of the oldest row that is held, and of the next to come: items
                          // with keys under `oldest` are gone, whether they are named or not
  uint32_t count, more;   // more: 1 where the reply ends before the newest change
};
static_assert(sizeof(ChangesHeader) == 32);

// Null when one of them is NaN, infinite or negative; 0 when there is none.
std::optional<float> greatest_priority(std::span<const float> priorities);

}  // namespace drlnet
