// Slots in the order in which their items last changed, each once: what is new to somebody who
// keeps priorities of his own. A list through one array, so that it never overflows and a slot that
// changes again just moves to the end. Threading: one thread. Nothing allocates after construction.
#pragma once

#include <cstdint>
#include <span>

#include "base/mapping.h"

namespace drlnet {

class Changes {
 public:
  explicit Changes(uint32_t slots)
      : memory_(memory_bytes(slots)), links_(reinterpret_cast<Link*>(memory_.data())) {}

  static uint64_t memory_bytes(uint32_t slots) { return uint64_t{slots} * sizeof(Link); }

  // These changed, in this order. O(1) each.
  void add(std::span<const uint32_t> slots) {
    for (size_t i = 0; i < slots.size(); ++i) {
      // Slots and their neighbours in the list lie anywhere: they are on their way meanwhile.
      if (i + 2 * kAhead < slots.size()) __builtin_prefetch(&links_[slots[i + 2 * kAhead]], 1);
      if (i + kAhead < slots.size()) {
        const Link& soon = links_[slots[i + kAhead]];
        __builtin_prefetch(&links_[soon.before], 1);
        __builtin_prefetch(&links_[soon.after], 1);
      }
      const uint32_t slot = slots[i];
      if (links_[slot].number != 0) unlink(slot);
      links_[slot] = {newest_, kNone, ++count_};
      if (newest_ != kNone) links_[newest_].after = slot;
      newest_ = slot;
    }
  }

  // Calls visit(slot) for what changed after the change numbered `since`, oldest first, `most` at
  // most. Returns the number of the last change that it visited (`since`, or the newest change if
  // that is older, when there is none). O(slots that changed since).
  template <typename Visit>
  uint64_t visit(uint64_t since, uint32_t most, Visit visit) const {
    uint32_t slot = kNone;
    for (uint32_t at = newest_; at != kNone && links_[at].number > since; at = links_[at].before) {
      slot = at;
    }
    uint64_t last = since < count_ ? since : count_;
    for (; slot != kNone && most > 0; --most, slot = links_[slot].after) {
      visit(slot);
      last = links_[slot].number;
    }
    return last;
  }

  uint64_t count() const { return count_; }  // changes ever; the newest one's number

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr size_t kAhead = 8;  // slots
  struct Link {
    uint32_t before, after;  // slots
    uint64_t number;         // of its last change; 0: never changed
  };

  void unlink(uint32_t slot) {
    const auto [before, after, number] = links_[slot];
    if (before != kNone) links_[before].after = after;
    (after == kNone ? newest_ : links_[after].before) = before;
  }

  Mapping memory_;
  Link* links_;
  uint32_t newest_ = kNone;
  uint64_t count_ = 0;
};

}  // namespace drlnet
