// Many lists of slots that grow and shrink at their ends, in one arena: each a tree of pages of 64
// words, so that an element is found in log64(length) steps and no list is ever copied to grow. A
// list knows its last leaf page: its end is reached in one step, whatever its length.
// Threading: one thread. Nothing allocates after construction. Memory: 4 bytes per slot, and under
// 512 bytes for each list that is not empty.
#pragma once

#include <bit>
#include <cstdint>

#include "base/assert.h"
#include "base/mapping.h"

namespace drlnet {

class SlotLists {
 public:
  // All lists together hold at most `slots`.
  SlotLists(uint32_t lists, uint32_t slots);

  uint32_t size(uint32_t list) const { return lists_[list].size; }
  // Returns its index.
  uint32_t push(uint32_t list, uint32_t slot) {
    List& at = lists_[list];
    const uint32_t index = at.size++;
    if (starts_page(index, 1)) [[unlikely]]
      add_leaf(at, index);
    word(at.last_leaf, index) = slot;
    return index;
  }
  // Returns the last slot. The list is not empty.
  uint32_t pop(uint32_t list) {
    List& at = lists_[list];
    DRLNET_ASSERT(at.size > 0);
    const uint32_t index = --at.size;
    const uint32_t slot = word(at.last_leaf, index);
    if (starts_page(index, 1)) [[unlikely]]
      drop_leaf(at, index);
    return slot;
  }

  // Asks the caches for where push() and pop() of the list will look (mostly one line for both).
  void prefetch_end(uint32_t list) const {
    __builtin_prefetch(&word(lists_[list].last_leaf, lists_[list].size - 1), 1);
  }
  // The list is not empty.
  uint32_t last(uint32_t list) const { return word(lists_[list].last_leaf, lists_[list].size - 1); }

  // The element's place; index < size(list). Valid until the list is next changed.
  uint32_t* at(uint32_t list, uint32_t index) const {
    return &word(leaf_of(lists_[list], index), index);
  }

 private:
  static constexpr uint32_t kShift = 6, kPage = 1u << kShift;
  struct List {
    uint32_t size, root;
    uint32_t last_leaf;  // of no meaning while the list is empty
  };

  // Levels of index pages above the leaves.
  static uint32_t height(uint32_t size) {
    return size <= kPage ? 0 : (static_cast<uint32_t>(std::bit_width(size - 1)) - 1) / kShift;
  }
  static bool starts_page(uint32_t index, uint32_t level) {
    return (index & ((1u << (kShift * level)) - 1)) == 0;
  }
  uint32_t& word(uint32_t page, uint32_t index) const {
    return words_[uint64_t{page} * kPage + index % kPage];
  }
  uint32_t leaf_of(const List& at, uint32_t index) const {
    uint32_t page = at.root;
    if (at.size > kPage * kPage) {
      for (uint32_t level = height(at.size); level > 1; --level) {
        page = word(page, index >> (kShift * level));
      }
    }
    // Lists of one page come mixed with longer ones: a choice, to be made without a branch.
    const uint32_t below = word(page, index >> kShift);
    return at.size > kPage ? below : page;
  }
  void add_leaf(List& at, uint32_t index);
  void drop_leaf(List& at, uint32_t index);
  uint32_t take_page();
  void give_page(uint32_t page);

  Mapping memory_;
  uint32_t* words_;
  List* lists_;
  uint32_t taken_ = 0;  // pages ever handed out
  uint32_t free_ = 0;   // head of the given back ones, chained by their first word as page + 1
};

}  // namespace drlnet
