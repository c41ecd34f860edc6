// What was drawn, and which rows its items need. Threading: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/sample_layout.h"

namespace drlnet {

// Which rows an item needs around its anchor.
struct Reach {
  explicit Reach(const ItemSpec& item)
      : back(item.back()), horizon(item.horizon()), stops(item.boundary == Boundary::stop) {}

  uint32_t rows() const { return back + 1 + horizon; }

  uint32_t back, horizon;
  bool stops;  // Boundary::stop
};

// A batch's bytes are a function of this and of immutable rows.
struct DrawnBatch {
  SampleHeader header{};
  std::vector<uint64_t> keys;
  std::vector<float> probabilities;
  std::vector<uint32_t> lengths;
  // Where the items' rows lie: slots[r * n + i] is the row r - back of item i, or the nearest that
  // the item has. Only the anchors (back = 0, r = 0) when the rows are not traced.
  std::vector<uint32_t> slots;
  bool traces = false;  // there is room for all rows in `slots`
  bool traced = false;  // and good while the row of number `oldest`, the oldest of them, is stored
  uint64_t oldest = 0;
};

}  // namespace drlnet
