// A table: a ring of rows shared by its streams, the items anchored in it, their priorities, and the
// limiter between insertion and sampling. It knows no session and no algorithm.
// Threading: one thread (its server's poll loop). Errors of the data path are Status values; nothing
// here throws after construction, and nothing allocates but lease() and a DrawnBatch that grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/metrics.h"
#include "base/random.h"
#include "replay/limiter.h"
#include "replay/ring.h"
#include "replay/streams.h"
#include "sampler/sampler.h"
#include "wire/append.h"
#include "wire/sample_layout.h"

namespace drlnet {

// A key: shard (8 bits) | epoch (16) | number (40). Numbers only grow; slot = number mod ring size.
// The table's epoch (its server's start) lies above the number, so that keys grow over restarts too.
constexpr uint64_t kKeyNumberBits = 40;

// What a sample request drew. The reply's bytes are a function of this and of immutable rows.
struct DrawnBatch {
  SampleHeader header{};
  std::vector<uint64_t> keys;
  std::vector<float> probabilities;
  std::vector<uint32_t> lengths;
};

class Table {
 public:
  // Checks the specification; throws Error(config).
  Table(TableSpec spec, uint8_t shard, uint16_t epoch);

  const TableSpec& spec() const { return spec_; }
  const SampleLayout& layout() const { return layout_; }
  static uint64_t memory_bytes(const TableSpec& spec);  // what a table of that kind will take

  Streams& streams() { return streams_; }

  // All or nothing: on a Status other than ok (stream_gap, unknown_lease, bad_priority, bad_request)
  // nothing was applied. Rows that are stored already are ignored. O(rows + items).
  Status append(const Append& append, AppendResult& result);
  // Whether the limiter lets these many items in now.
  bool may_insert(uint64_t items) const { return limiter_.may_insert(items); }

  // True when `batch` draws are allowed now; else why not.
  Wait may_sample(uint64_t batch) const;
  // Draws `batch` items with replacement and counts them. may_sample(batch) must be Wait::none.
  void draw(uint32_t batch, DrawnBatch& drawn);
  // Writes bytes [offset, offset + out.size()) of the reply. False when a row that it needs has been
  // overwritten (SampleExpired). O(rows touched).
  bool gather(const DrawnBatch& drawn, uint64_t offset, std::span<std::byte> out) const;

  // Live items get the priority; others are counted as stale and ignored. bad_priority applies none.
  Status update_priorities(std::span<const uint64_t> keys, std::span<const float> priorities,
                           uint64_t& applied, uint64_t& stale);

  uint64_t rows() const;         // logical: at most capacity
  uint64_t live_items() const { return sampler_->size(); }
  uint64_t env_steps() const { return env_steps_; }
  void read_metrics(const std::string& prefix, Metrics& metrics) const;
  // Recomputes every invariant from scratch: states, links, masses, counts. For tests. O(capacity).
  bool consistent() const;
};

}  // namespace drlnet
