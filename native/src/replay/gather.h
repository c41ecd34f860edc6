// A drawn batch's bytes out of the rows: any range of a reply, as often as it is pulled. Rows never
// change once they are stored, so what was drawn is all that a reply needs. Threading: the table's
// thread. Nothing allocates but a DrawnBatch that grows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/loans.h"
#include "replay/ring.h"
#include "spec/items.h"
#include "spec/sample_layout.h"

namespace drlnet {

// Which rows an item needs around its anchor.
struct Reach {
  explicit Reach(const ItemSpec& item)
      : back(item.back()), horizon(item.horizon()), stops(item.boundary == Boundary::stop) {}

  // How many rows before this one its item reads; rows that never were are padded.
  uint64_t back_of(const Row& row) const {
    return std::min<uint64_t>(back, stops ? row.since_first : row.step);
  }

  uint32_t back, horizon;
  bool stops;  // Boundary::stop
};

// What a sample request drew. The reply's bytes are a function of this and of immutable rows.
struct DrawnBatch {
  SampleHeader header{};
  std::vector<uint64_t> keys;
  std::vector<float> probabilities;
  std::vector<uint32_t> lengths;
  // Where the items' rows lie: slots[r * n + i] is the row r - back of item i, or the nearest that
  // the item has. Only the anchors (back = 0, r = 0) when the rows were not traced.
  std::vector<uint32_t> slots;
  bool traced = false;  // and good while the row of number `oldest`, the oldest of them, is stored
  uint64_t oldest = 0;
};

class Gather {
 public:
  // key_base: what the keys of the ring's rows begin with.
  Gather(const TableSpec& spec, const Ring& ring, uint64_t key_base);

  const SampleLayout& layout() const { return layout_; }

  // The items' anchors, to be filled in. Their number is that of the keys.
  std::span<uint32_t> begin(DrawnBatch& drawn) const;
  // Finds the items' lengths and their other rows, once for all windows: one step of all items
  // after another, so that their cache misses overlap. Anchors are there, the oldest one's number,
  // and 0 for lengths: those of a table without a horizon, whose rows need not be read for them.
  void trace(DrawnBatch& drawn) const;
  // Writes bytes [offset, offset + out.size()) of the reply. False when a row that it needs has
  // been overwritten (SampleExpired). O(rows touched). With `loans`, long pieces of it are lent:
  // rows until the next append, and what `drawn` holds.
  bool write(const DrawnBatch& drawn, uint64_t offset, std::span<std::byte> out,
             Loans* loans = nullptr) const;

 private:
  // gather.cc: rows found anew, by their keys and links
  bool write_window(const DrawnBatch& drawn, const Window& window, uint64_t offset,
                    std::span<std::byte> out, Loans* loans) const;
  bool write_item(const Window& window, uint64_t key, uint32_t length, uint64_t offset,
                  std::span<std::byte> out, Loans* loans) const;
  void prefetch(const Window& window, uint64_t key) const;

  // gather_traced.cc: rows found by trace()
  void write_traced(const DrawnBatch& drawn, const Window& window, uint64_t offset,
                    std::span<std::byte> out, Loans* loans) const;

  SampleLayout layout_;
  Reach reach_;
  bool traces_;  // batches are traced: their items have few rows
  const Ring& ring_;
  uint64_t key_base_;
};

}  // namespace drlnet
