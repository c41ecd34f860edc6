// What a client with a sampler of its own asks for: items by their keys, and which of them changed.
#include "replay/table.h"

namespace drlnet {

void Table::look_up(std::span<const uint64_t> keys, DrawnBatch& found) const {
  const size_t n = keys.size();
  found.header = header_of(static_cast<uint32_t>(n));
  found.keys.assign(n, kNoKey);
  found.probabilities.assign(n, 0);
  found.lengths.assign(n, 0);
  found.oldest = ring_.head();
  const std::span<uint32_t> slots = gather_.begin(found);
  size_t held = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t number = keys[i] - key_base_;  // of a foreign key: beyond the head
    if (!ring_.stored(number)) continue;
    const uint32_t slot = ring_.place(number).slot;
    const Row& row = ring_.row(slot);
    if (!drawable_.test(slot)) continue;
    found.keys[i] = keys[i];
    found.probabilities[i] = sampler_->stored(slot);
    found.lengths[i] = row.length;
    found.oldest = std::min(found.oldest, number);
    slots[i] = slot;
    ++held;
  }
  if (held == n) gather_.trace(found);
}

// Items, and what a client may still believe to be one.
void Table::list_items() {
  listed_ = changes_->count();
  for (uint64_t number = ring_.oldest(); number < ring_.head(); ++number) {
    const uint32_t slot = ring_.place(number).slot;
    const ItemState state = ring_.row(slot).state;
    if (state == ItemState::live || state == ItemState::retired) changes_->add({&slot, 1});
  }
}

ChangesHeader Table::changes(uint64_t since, uint32_t most, std::vector<uint64_t>& keys,
                             std::vector<float>& priorities) {
  if (!changes_) {
    changes_ = std::make_unique<Changes>(ring_.size(), key_base_);  // grows over restarts
    list_items();
    since = listed_;
  }
  // Behind, or of another life of the server: he is told of all items, by a list that others read,
  // too.
  if (!changes_->reaches(since)) {
    if (!changes_->reaches(listed_)) list_items();
    since = listed_;
  }
  keys.clear();
  priorities.clear();
  const uint64_t next = changes_->visit(since, most, [&](uint32_t slot) {
    const bool live = drawable_.test(slot);
    keys.push_back(key_base_ + ring_.number_at(slot));
    priorities.push_back(live ? sampler_->stored(slot) : 0);
  });
  return {.next = next,
          .oldest = key_base_ + ring_.oldest(),
          .head = key_base_ + ring_.head(),
          .count = static_cast<uint32_t>(keys.size()),
          .more = next < changes_->count()};
}

}  // namespace drlnet
