#include "storage/item_shadow.h"

#include <algorithm>

namespace drlnet {

void ItemShadow::apply(const TableState& state) {
  const uint64_t slots = items_.size(), head = state.counters.head;
  // New rows are in the slots of older ones.
  const uint64_t from = std::max(head_, head - std::min(head, slots));
  for (uint64_t number = from; number < head; ++number) items_[number % slots] = {};
  for (const SavedItem& item : state.items) {
    // A record of more slots than the table has is from no server; the table refuses it later.
    if (item.slot >= slots) continue;
    items_[item.slot] = {item.priority, item.draws, item.state};
  }
  head_ = head;
  oldest_ = state.counters.oldest;
}

std::vector<SavedItem> ItemShadow::items() const {
  std::vector<SavedItem> list;
  for (uint64_t number = oldest_; number < head_; ++number) {
    const uint64_t slot = number % items_.size();
    const Item& item = items_[slot];
    if (item.state == ItemState::none) continue;
    list.push_back({static_cast<uint32_t>(slot), item.priority, item.draws, item.state, 0});
  }
  return list;
}

}  // namespace drlnet
