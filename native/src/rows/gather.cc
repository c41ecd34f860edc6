#include "rows/gather.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

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
void put_rows(const Traced& traced, const Window& window, const RowColumn& column, uint64_t offset,
              std::span<std::byte> out, RowSink sink) {
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
      copy_row(out.data(), column.at(first) + skip, bytes, sink);
    }
    out = out.subspan(bytes);
    skip = 0;
  }
}

// Whole items of a short column: the k-th row of all of them, then the next one, so that each loop
// is a few instructions.
void put_items(const Traced& traced, const Window& window, const RowColumn& column, size_t first,
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

bool write_batch(const SampleLayout& layout, const DrawnBatch& drawn, uint64_t offset,
                 std::span<std::byte> out, RowSink sink, WriteWindow write_window) {
  const uint64_t n = drawn.keys.size();
  DRLNET_ASSERT(offset + out.size() <= layout.total_bytes(n));
  // Fills the part of out that lies in [begin, begin + bytes) of the reply.
  const auto part = [&](uint64_t begin, uint64_t bytes, auto&& fill) {
    const uint64_t from = std::max(offset, begin);
    const uint64_t to = std::min(offset + out.size(), begin + bytes);
    return from >= to || fill(from - begin, out.subspan(from - offset, to - from));
  };
  uint64_t end = 0;  // of the section before
  const auto section = [&](uint64_t begin, uint64_t bytes, auto&& fill) {
    part(end, begin - end, [](uint64_t, std::span<std::byte> gap) {
      std::memset(gap.data(), 0, gap.size());
      return true;
    });
    end = begin + bytes;
    return part(begin, bytes, fill);
  };
  const auto flat = [&](uint64_t begin, const void* bytes, uint64_t size) {
    section(begin, size, [&](uint64_t from, std::span<std::byte> to) {
      copy_row(to.data(), static_cast<const std::byte*>(bytes) + from, to.size(), sink);
      return true;
    });
  };
  flat(0, &drawn.header, sizeof drawn.header);
  flat(layout.keys(n), drawn.keys.data(), 8 * n);
  flat(layout.probabilities(n), drawn.probabilities.data(), 4 * n);
  flat(layout.lengths(n), drawn.lengths.data(), 4 * n);
  uint64_t begin = layout.window(n, 0);
  for (const Window& window : layout.windows()) {
    const uint64_t bytes = n * window.item_bytes();
    if (!section(begin, bytes, [&](uint64_t from, std::span<std::byte> to) {
          return write_window(window, from, to);
        })) {
      return false;
    }
    begin = SampleLayout::align64(begin + bytes);
  }
  flat(begin, nullptr, 0);
  return true;
}

// Whole items of a short column go together, the parts of items before and behind them row by row.
void write_traced(const DrawnBatch& drawn, const Reach& reach, const Window& window,
                  const RowColumn& column, uint64_t offset, std::span<std::byte> out,
                  RowSink sink) {
  const uint64_t item_bytes = window.item_bytes();
  const Traced traced{
      .anchors = drawn.slots.data() + reach.back * drawn.keys.size(),
      .lengths = drawn.lengths.data(),
      .n = static_cast<int64_t>(drawn.keys.size()),
      .horizon = reach.horizon,
      // With a horizon of one step every item has its full length.
      .shifts = window.align == Align::end && reach.horizon > 1,
      .zeros = window.pad == Pad::zero && (window.lo < 0 || reach.horizon > 1),
  };
  const uint64_t before = (item_bytes - offset % item_bytes) % item_bytes;
  if (window.row_bytes <= kShortRowBytes && out.size() >= before + item_bytes) {
    const size_t items = (out.size() - before) / item_bytes;
    put_rows(traced, window, column, offset, out.first(before), sink);
    put_items(traced, window, column, (offset + before) / item_bytes, items, out.data() + before);
    offset += before + items * item_bytes;
    out = out.subspan(before + items * item_bytes);
  }
  put_rows(traced, window, column, offset, out, sink);
}

}  // namespace drlnet
