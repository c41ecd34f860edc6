// A drawn batch's bytes out of the rows: any range of a reply, as often as it is pulled. Rows never
// change once they are stored, so what was drawn is all that a reply needs. Threading: the table's
// thread. Nothing allocates but a DrawnBatch that grows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "replay/ring.h"
#include "rows/gather.h"
#include "spec/sample_layout.h"

namespace drlnet {

// How many rows before this one its item reads; rows that never were are padded.
inline uint64_t rows_before(const Reach& reach, const Row& row) {
  return std::min<uint64_t>(reach.back, reach.stops ? row.since_first : row.step);
}

class Gather {
 public:
  // key_base: what the keys of the ring's rows begin with.
  Gather(const TableSpec& spec, const Ring& ring, uint64_t key_base);

  const SampleLayout& layout() const { return layout_; }

  // The items' anchors, to be filled in. Their number is that of the keys. whole: long items are to
  // be traced, too.
  std::span<uint32_t> begin(DrawnBatch& drawn, bool whole = false) const;
  // Finds the items' lengths and their other rows, once for all windows: one step of all items
  // after another, so that their cache misses overlap. Anchors are there, the oldest one's number,
  // and 0 for lengths: those of a table without a horizon, whose rows need not be read for them.
  void trace(DrawnBatch& drawn) const;
  // Writes bytes [offset, offset + out.size()) of the reply. False when a row that it needs has
  // been overwritten (SampleExpired). O(rows touched). With loans, long pieces of it are lent:
  // rows until the next append, and what `drawn` holds.
  bool write(const DrawnBatch& drawn, uint64_t offset, std::span<std::byte> out,
             RowSink sink = {}) const;

 private:
  bool write_window(const DrawnBatch& drawn, const Window& window, uint64_t offset,
                    std::span<std::byte> out, RowSink sink) const;
  bool write_item(const Window& window, uint64_t key, uint32_t length, uint64_t offset,
                  std::span<std::byte> out, RowSink sink) const;
  void prefetch(const Window& window, uint64_t key) const;

  SampleLayout layout_;
  Reach reach_;
  bool traces_;  // batches are traced: their items have few rows
  const Ring& ring_;
  uint64_t key_base_;
};

}  // namespace drlnet
