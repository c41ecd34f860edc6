#include "sampler/slot_lists.h"

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace drlnet {
namespace {

// Leaf pages: the full ones, and one per list that is not full. Index pages: at most half as many.
uint64_t pages_needed(uint32_t lists, uint32_t slots, uint32_t page) {
  const uint64_t leaves = slots / page + uint64_t{std::min(lists, slots)} + 1;
  return leaves + leaves / 2 + 1;
}

}  // namespace

SlotLists::SlotLists(uint32_t lists, uint32_t slots)
    : lists_memory_(sizeof(List) * lists),
      pages_memory_(pages_needed(lists, slots, kPage) * kPage * sizeof(uint32_t)),
      lists_(reinterpret_cast<List*>(lists_memory_.data())),
      words_(reinterpret_cast<uint32_t*>(pages_memory_.data())) {}

uint32_t SlotLists::push(uint32_t list, uint32_t slot) {
  List& at = lists_[list];
  const uint32_t index = at.size++;
  const uint32_t levels = height(at.size);
  if (index == 0) {
    at.root = take_page();
  } else if (levels > height(index)) {
    const uint32_t above = take_page();
    word(above, 0) = at.root;
    at.root = above;
  }
  uint32_t page = at.root;
  for (uint32_t level = levels; level > 0; --level) {
    uint32_t& below = word(page, index >> (kShift * level));
    if (starts_page(index, level)) below = take_page();
    page = below;
  }
  word(page, index) = slot;
  return index;
}

uint32_t SlotLists::pop(uint32_t list) {
  List& at = lists_[list];
  DRLNET_ASSERT(at.size > 0);
  const uint32_t levels = height(at.size);
  const uint32_t index = --at.size;
  std::array<uint32_t, 6> path;  // by level; 64^6 exceeds any index
  path[levels] = at.root;
  for (uint32_t level = levels; level > 0; --level) {
    path[level - 1] = word(path[level], index >> (kShift * level));
  }
  const uint32_t slot = word(path[0], index);
  for (uint32_t level = 1; level <= levels; ++level) {
    if (starts_page(index, level)) give_page(path[level - 1]);
  }
  if (index == 0) {
    give_page(at.root);
  } else if (height(index) < levels) {
    at.root = word(path[levels], 0);
    give_page(path[levels]);
  }
  return slot;
}

uint32_t SlotLists::take_page() {
  if (free_ == 0) return taken_++;
  const uint32_t page = free_ - 1;
  free_ = word(page, 0);
  return page;
}

void SlotLists::give_page(uint32_t page) {
  word(page, 0) = free_;
  free_ = page + 1;
}

}  // namespace drlnet
