#include "sampler/slot_lists.h"

#include <algorithm>
#include <array>

namespace drlnet {
namespace {

// Leaf pages: the full ones, and one per list that is not full. Index pages: at most half as many.
uint64_t pages_needed(uint32_t lists, uint32_t slots, uint32_t page) {
  const uint64_t leaves = slots / page + uint64_t{std::min(lists, slots)} + 1;
  return leaves + leaves / 2 + 1;
}

}  // namespace

SlotLists::SlotLists(uint32_t lists, uint32_t slots) {
  const uint64_t words = pages_needed(lists, slots, kPage) * kPage;
  memory_ = Mapping(words * sizeof(uint32_t) + lists * sizeof(List));
  words_ = reinterpret_cast<uint32_t*>(memory_.data());
  lists_ = reinterpret_cast<List*>(words_ + words);
}

// For the element `index`, which begins it.
void SlotLists::add_leaf(List& at, uint32_t index) {
  const uint32_t levels = height(index + 1);
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
  at.last_leaf = page;
}

// Frees the chunk of the element `index`, the only one that was left in it.
void SlotLists::drop_leaf(List& at, uint32_t index) {
  const uint32_t levels = height(index + 1);
  std::array<uint32_t, 6> path;  // by level; 64^6 exceeds any index
  path[levels] = at.root;
  for (uint32_t level = levels; level > 0; --level) {
    path[level - 1] = word(path[level], index >> (kShift * level));
  }
  for (uint32_t level = 1; level <= levels; ++level) {
    if (starts_page(index, level)) give_page(path[level - 1]);
  }
  if (index == 0) {
    give_page(at.root);
    return;
  }
  if (height(index) < levels) {
    at.root = word(path[levels], 0);
    give_page(path[levels]);
  }
  at.last_leaf = leaf_of(at, index - 1);
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
