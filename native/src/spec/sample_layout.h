// Where each byte of a sample reply lies. Server and client compute it from the same TableSpec, so
// a range of the reply can be gathered, pulled and placed without further description.
//
//   header | keys u64[n] | probabilities f32[n] | lengths u32[n] | window 0 | window 1 | ...
//
// Sections start at multiples of 64 bytes; the bytes between are zero. A window is rows [lo, hi] of
// one column for every item, item-major: views that overlap share one window, so that frames which
// both `obs` and `next_obs` hold travel once.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/table_spec.h"

namespace drlnet {

struct Window {
  uint16_t column;
  int32_t lo, hi;  // inclusive
  Pad pad;
  Align align;  // Align::end only where the server shifts it, see shift_at_client
  uint64_t row_bytes;
  uint64_t rows() const { return static_cast<uint64_t>(hi - lo + 1); }
  uint64_t item_bytes() const { return rows() * row_bytes; }
};

struct ViewPlace {
  uint16_t window;
  uint32_t first;  // the view's first row within the window, for an item of full length
  uint32_t rows;
  // The view is aligned to the end but shares an anchor-aligned window: for an item of length m it
  // starts at row first - (horizon - m).
  bool shift_at_client;
};

struct SampleHeader {
  uint32_t batch;
  uint32_t reserved;
  uint64_t item_count;  // live items at draw time
  uint64_t head;        // key number that the next row will get: age = head - number(key)
  uint64_t env_steps;   // rows stored so far, LAST rows excluded
  uint64_t items_created, items_drawn;
  double priority_mass;  // sum of stored priorities over live items
  uint64_t draws_left;   // of a queue's items, after this draw
};
static_assert(sizeof(SampleHeader) == 64);

class SampleLayout {
 public:
  explicit SampleLayout(const TableSpec& spec);

  const std::vector<Window>& windows() const { return windows_; }
  const std::vector<ViewPlace>& views() const { return views_; }  // in TableSpec order

  // Offsets in bytes for a batch of n.
  uint64_t keys(uint64_t) const { return sizeof(SampleHeader); }
  uint64_t probabilities(uint64_t n) const { return align64(keys(n) + 8 * n); }
  uint64_t lengths(uint64_t n) const { return align64(probabilities(n) + 4 * n); }
  uint64_t window(uint64_t n, size_t index) const;
  uint64_t total_bytes(uint64_t n) const { return window(n, windows_.size()); }

  // A sample by reference has the rows' ages in place of the windows: u32[rows of an item][n], each
  // the header's head less the row's number. Row r is r - back steps from the anchor; where the
  // item has no such row, the nearest that it has stands there.
  uint64_t references(uint64_t n) const { return align64(lengths(n) + 4 * n); }
  uint64_t reference_bytes(uint64_t n, uint64_t rows) const { return references(n) + 4 * rows * n; }

  static uint64_t align64(uint64_t bytes) { return (bytes + 63) & ~uint64_t{63}; }

 private:
  std::vector<Window> windows_;
  std::vector<ViewPlace> views_;
};

}  // namespace drlnet
