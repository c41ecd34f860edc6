// A table's items as of the last record of its state, put together from changes. Threading: one
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/table_state.h"

namespace drlnet {

class ItemShadow {
 public:
  explicit ItemShadow(uint64_t slots) : items_(slots) {}

  // The state's items are those that changed since the last one.
  void apply(const TableState& state);
  // Those of rows that are held, in the order of the rows' numbers.
  std::vector<SavedItem> items() const;

 private:
  struct Item {
    float priority = 0;
    uint16_t draws = 0;
    ItemState state = ItemState::none;
  };
  std::vector<Item> items_;  // by slot
  uint64_t oldest_ = 0, head_ = 0;
};

}  // namespace drlnet
