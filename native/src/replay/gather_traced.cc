// Where the rows of drawn items lie, found once for all windows of a reply, and the bytes out of
// them.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "replay/gather.h"
#include "replay/row_copy.h"

namespace drlnet {
namespace {

// The rows of traced items, as a window shows them.
struct Traced {
  const uint32_t* anchors;
  const uint32_t* lengths;
  int64_t n, horizon;
  bool shifts, zeros;

  const uint32_t* slots(int64_t step) const { return anchors + step * n; }
  // kNoSlot: zeros stand there.
  uint32_t slot(size_t i, int64_t step) const {
    const auto length = static_cast<int64_t>(lengths[i]);
    const int64_t at = shifts ? step - (horizon - length) : step;
    const uint32_t slot = slots(at)[i];
    // Before the item's first row stands that row again.
    return zeros && (at > length || (at < 0 && slots(at + 1)[i] == slot)) ? kNoSlot : slot;
  }
};

// Any part of a window, row by row; rows that lie together go together.
void put_rows(const Traced& traced, const Window& window, const RingColumn& column, uint64_t offset,
              std::span<std::byte> out, Loans* loans) {
  if (out.empty()) return;
  const uint64_t row_bytes = window.row_bytes, rows = window.rows();
  const uint64_t last = (offset + out.size() - 1) / row_bytes;
  uint64_t row = offset / row_bytes, skip = offset % row_bytes;
  const auto slot_of = [&](uint64_t at) {
    return traced.slot(at / rows, window.lo + static_cast<int64_t>(at % rows));
  };
  const auto fetch = [&](uint64_t at) {
    const uint32_t slot = at > last ? kNoSlot : slot_of(at);
    if (slot != kNoSlot) __builtin_prefetch(column.at(slot));
  };
  const auto next_slot = [&] {
    fetch(row + kRowsAhead);
    return slot_of(row++);
  };
  for (uint64_t at = row; at <= std::min(last, row + kRowsAhead - 1); ++at) fetch(at);
  uint32_t slot = next_slot();
  while (!out.empty()) {
    const uint32_t first = slot;
    uint64_t bytes = row_bytes - skip;
    for (uint32_t count = 1; bytes < out.size(); ++count, bytes += row_bytes) {
      slot = next_slot();
      if (first == kNoSlot || slot != first + count || !column.together()) break;
    }
    bytes = std::min<uint64_t>(bytes, out.size());
    if (first == kNoSlot) {
      std::memset(out.data(), 0, bytes);
    } else {
      copy_row(out.data(), column.at(first) + skip, bytes, loans);
    }
    out = out.subspan(bytes);
    skip = 0;
  }
}

// Whole items of a short column: the k-th row of all of them, then the next one, so that each loop
// is a few instructions.
void put_items(const Traced& traced, const Window& window, const RingColumn& column, size_t first,
               size_t items, std::byte* to) {
  const auto copy = [&](auto bytes) {
    const uint64_t item_bytes = window.rows() * bytes;
    const size_t to_come = static_cast<size_t>(traced.n) - first;
    const bool far = column.together() || traced.horizon == 0;  // else trace() has read it
    for (int64_t step = window.lo; step <= window.hi; ++step, to += bytes) {
      std::byte* row = to;
      if (!traced.shifts && !traced.zeros) {
        const uint32_t* slots = traced.slots(step) + first;
        const auto fetch = [&](size_t i) {
          const std::byte* const ahead = column.at(slots[i]);
          __builtin_prefetch(ahead);
          if (bytes > 16) __builtin_prefetch(ahead + bytes - 1);  // they begin anywhere in a line
        };
        if (far && first == 0) {
          for (size_t i = 0; i < std::min(kShortRowsAhead, to_come); ++i) fetch(i);
        }
        for (size_t i = 0; i < items; ++i, row += item_bytes) {
          if (far && i + kShortRowsAhead < to_come) fetch(i + kShortRowsAhead);  // and next frame's
          copy_short_row(row, column.at(slots[i]), bytes);
        }
        continue;
      }
      for (size_t i = first; i < first + items; ++i, row += item_bytes) {
        if (const uint32_t slot = traced.slot(i, step); slot == kNoSlot) {
          std::memset(row, 0, bytes);
        } else {
          copy_short_row(row, column.at(slot), bytes);
        }
      }
    }
  };
  with_short_row(window.row_bytes, copy);
}

}  // namespace

std::span<uint32_t> Gather::begin(DrawnBatch& drawn) const {
  const size_t n = drawn.keys.size();
  drawn.traced = false;
  drawn.slots.resize(traces_ ? (reach_.back + 1 + reach_.horizon) * n : n);
  return std::span(drawn.slots).subspan(traces_ ? reach_.back * n : 0, n);
}

void Gather::trace(DrawnBatch& drawn) const {
  const size_t n = drawn.keys.size();
  uint32_t* lengths = drawn.lengths.data();
  uint32_t* anchors = drawn.slots.data() + (traces_ ? reach_.back * n : 0);
  if (reach_.horizon > 0) {
    uint32_t* to = traces_ ? anchors + n : nullptr;
    for (size_t i = 0; i < n; ++i) {
      if (i + kShortRowsAhead < n) __builtin_prefetch(&ring_.row(anchors[i + kShortRowsAhead]));
      const Row& row = ring_.row(anchors[i]);
      DRLNET_ASSERT(row.state >= ItemState::live);  // a queue's may have retired by this draw
      lengths[i] = row.length;
      if (to == nullptr) continue;
      to[i] = row.length > 0 ? row.next : anchors[i];
      __builtin_prefetch(&ring_.row(to[i]));
    }
  }
  if (!traces_) return;
  for (uint32_t step = 2; step <= reach_.horizon; ++step) {
    const uint32_t* from = anchors + (step - 1) * n;
    uint32_t* to = anchors + step * n;
    for (size_t i = 0; i < n; ++i) {
      to[i] = lengths[i] >= step ? ring_.row(from[i]).next : from[i];
      __builtin_prefetch(&ring_.row(to[i]));
    }
  }
  uint32_t oldest = 0;
  for (uint32_t step = reach_.back; step > 0; --step) {
    const uint32_t* from = drawn.slots.data() + step * n;
    uint32_t* to = drawn.slots.data() + (step - 1) * n;
    for (size_t i = 0; i < n; ++i) {
      const Row& row = ring_.row(from[i]);
      to[i] = (reach_.stops ? row.since_first : row.step) > 0 ? row.previous : from[i];
      __builtin_prefetch(&ring_.row(to[i]));
      oldest = std::max(oldest, ring_.age_at(to[i]));
    }
  }
  drawn.oldest = std::min(drawn.oldest, ring_.head() - oldest);
  drawn.traced = true;
}

// Whole items of a short column go together, the parts of items before and behind them row by row.
void Gather::write_traced(const DrawnBatch& drawn, const Window& window, uint64_t offset,
                          std::span<std::byte> out, Loans* loans) const {
  const uint64_t item_bytes = window.item_bytes();
  const Traced traced{
      .anchors = drawn.slots.data() + reach_.back * drawn.keys.size(),
      .lengths = drawn.lengths.data(),
      .n = static_cast<int64_t>(drawn.keys.size()),
      .horizon = reach_.horizon,
      // With a horizon of one step every item has its full length.
      .shifts = window.align == Align::end && reach_.horizon > 1,
      .zeros = window.pad == Pad::zero && (window.lo < 0 || reach_.horizon > 1),
  };
  const RingColumn column = ring_.column(window.column);
  const uint64_t before = (item_bytes - offset % item_bytes) % item_bytes;
  if (window.row_bytes <= kShortRowBytes && out.size() >= before + item_bytes) {
    const size_t items = (out.size() - before) / item_bytes;
    put_rows(traced, window, column, offset, out.first(before), loans);
    put_items(traced, window, column, (offset + before) / item_bytes, items, out.data() + before);
    offset += before + items * item_bytes;
    out = out.subspan(before + items * item_bytes);
  }
  put_rows(traced, window, column, offset, out, loans);
}

}  // namespace drlnet
