// Where the views of a batch of n items lie in a client's memory: as in the reply, but that rows
// which an end-aligned view shares with others lie twice. An item that ends early shows earlier
// rows there than the others do, and every view stays one array without a copy of it.
// Threading: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "session/client/destination.h"
#include "spec/sample_layout.h"

namespace drlnet {

class BatchLayout {
 public:
  // A view's rows lie together; those of the next item `item_bytes` further on.
  struct View {
    uint64_t offset, item_bytes;
  };

  BatchLayout(const TableSpec& spec, uint32_t n);

  uint32_t count() const { return n_; }
  // The header, keys, probabilities and lengths lie where they do in it.
  const SampleLayout& reply() const { return reply_; }
  uint64_t memory_bytes() const { return memory_bytes_; }
  const std::vector<View>& views() const { return views_; }  // in TableSpec order

  Destination destination(std::span<std::byte> memory) const { return {memory, repeats_}; }
  // For a reply of rows items of their own: where all of it goes, but for its header, when they are
  // items [first, first + rows) of the batch.
  void add_part(std::span<std::byte> memory, uint32_t first, uint32_t rows, Places& places) const;
  // After the reply has come: puts the rows of items that end early where their views show them.
  void align_views(std::span<std::byte> memory) const;

 private:
  // The rows of end-aligned views in a window that others share, which they have to themselves.
  struct Apart {
    uint64_t window, item_bytes, row_bytes;  // in memory
    uint32_t first, rows;                    // in memory
    uint32_t doubled;                        // of them, the first ones: they lie twice
  };

  // A window in memory: a number of an item's first bytes in the reply, and as many of the last
  // ones of those once more.
  struct Place {
    uint64_t offset, item_bytes, first_bytes, doubled_bytes;
  };

  void add_window(size_t index, uint64_t& shift);

  SampleLayout reply_;
  uint32_t n_, horizon_;
  uint64_t memory_bytes_ = 0;
  std::vector<View> views_;
  std::vector<Place> windows_;
  std::vector<Repeat> repeats_;
  std::vector<Apart> apart_;
};

}  // namespace drlnet
