// The records of an append as they lie in its request (PROTOCOL.md, "append").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace drlnet {

// Flags of a row. They alone mark episode boundaries.
constexpr uint8_t kFirst = 1;  // the first observation of an episode
constexpr uint8_t kApart = 4;  // within a server: a copy for one item, in no stream's order
constexpr uint8_t kLast = 2;   // its final observation: a row without an action

// Consecutive steps of one stream; the rows of an append lie segment after segment.
struct AppendSegment {
  uint32_t ordinal;
  uint32_t epoch;
  uint64_t token;
  uint64_t first_step;
  uint32_t rows;
  uint32_t reserved;
};
static_assert(sizeof(AppendSegment) == 32);

constexpr uint32_t kUseMaximum = 1;  // AppendItem::flags: priority is the running maximum

// An item to create, anchored at a step of a stream whose rows were sent (in this append or
// before).
struct AppendItem {
  uint32_t ordinal;
  uint32_t epoch;
  uint64_t step;
  float priority;
  uint32_t flags;
};
static_assert(sizeof(AppendItem) == 24);

// Borrowed from the request's bytes. columns[c] holds row_flags.size() rows of column c.
struct Append {
  std::span<const AppendSegment> segments;
  std::span<const uint8_t> row_flags;
  std::vector<std::span<const std::byte>>& columns;
  std::span<const AppendItem> items;
  uint64_t holder = 0;  // the session that sends it: adopts orphaned streams whose token it knows
};

// What became of it; travels as the reply.
struct AppendResult {
  uint32_t rows_stored = 0;
  uint32_t rows_ignored = 0;   // had been stored before: a resent append
  uint32_t items_created = 0;  // live or pending
  uint32_t items_ignored = 0;  // existed already: a resent append
  uint64_t expected_step = 0;  // with Status::stream_gap: the step that its stream expects next
  uint32_t ordinal = 0;        // with stream_gap and unknown_lease: which stream
  uint32_t items_refused = 0;  // their rows are evicted or never came; off the period; on LAST
  // From a server that keeps its state: the record on disk that will have this append (0: it is on
  // disk, or never will be), and the newest one that is there.
  uint64_t record = 0, written = 0;
};
static_assert(sizeof(AppendResult) == 48);

}  // namespace drlnet
