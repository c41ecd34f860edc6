// A reply's bytes out of the rows: any range of it, as often as it is pulled.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/assert.h"
#include "replay/table.h"

namespace drlnet {
namespace {

// Most rows of vector environments are a few bytes: a call to memcpy for each costs more than the
// bytes do.
inline void put(std::byte* to, const std::byte* from, size_t bytes, Loans* loans) {
  switch (bytes) {
    case 1:
      std::memcpy(to, from, 1);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 12:
      std::memcpy(to, from, 12);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    case 32:
      std::memcpy(to, from, 32);
      return;
    default:
      if (loans != nullptr) return loans->put(to, from, bytes);
      std::memcpy(to, from, bytes);
  }
}

constexpr size_t kAhead = 16;       // items, or rows, that are on their way while one is copied
constexpr size_t kShortBytes = 64;  // of a row for which looking up its place takes longest

// The same for any number of bytes from 1 to 64: two moves that may overlap do for a whole range.
template <typename Part>
inline void copy_ends(std::byte* to, const std::byte* from, size_t bytes) {
  Part begin, end;
  std::memcpy(&begin, from, sizeof begin);
  std::memcpy(&end, from + bytes - sizeof end, sizeof end);
  std::memcpy(to, &begin, sizeof begin);
  std::memcpy(to + bytes - sizeof end, &end, sizeof end);
}
inline void copy_short(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 32) return copy_ends<std::array<uint64_t, 4>>(to, from, bytes);
  if (bytes > 16) return copy_ends<std::array<uint64_t, 2>>(to, from, bytes);
  if (bytes > 8) return copy_ends<uint64_t>(to, from, bytes);
  if (bytes > 4) return copy_ends<uint32_t>(to, from, bytes);
  if (bytes > 2) return copy_ends<uint16_t>(to, from, bytes);
  copy_ends<std::byte>(to, from, bytes);
}
template <size_t kBytes>
inline void copy_short(std::byte* to, const std::byte* from,
                       std::integral_constant<size_t, kBytes>) {
  std::memcpy(to, from, kBytes);
}

// Writes a range of a stream of bytes that is offered from its start: skips, then fills out.
class Filler {
 public:
  Filler(uint64_t skip, std::span<std::byte> out, Loans* loans)
      : skip_(skip), next_(out.data()), left_(out.size()), loans_(loans) {}

  bool full() const { return left_ == 0; }

  void rows(const std::byte* from, uint64_t bytes) {
    if (!clip(bytes)) return;
    put(next_, from + skipped_, clipped_, loans_);
    step();
  }
  void zero(uint64_t bytes) {
    if (!clip(bytes)) return;
    std::memset(next_, 0, clipped_);
    step();
  }

 private:
  bool clip(uint64_t bytes) {
    if (skip_ >= bytes) {
      skip_ -= bytes;
      return false;
    }
    skipped_ = skip_;
    clipped_ = std::min<uint64_t>(bytes - skip_, left_);
    skip_ = 0;
    return clipped_ > 0;
  }
  void step() {
    next_ += clipped_;
    left_ -= clipped_;
  }

  uint64_t skip_;
  std::byte* next_;
  uint64_t left_;
  Loans* loans_;
  uint64_t skipped_ = 0, clipped_ = 0;
};

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
    fetch(row + kAhead);
    return slot_of(row++);
  };
  for (uint64_t at = row; at <= std::min(last, row + kAhead - 1); ++at) fetch(at);
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
      put(out.data(), column.at(first) + skip, bytes, loans);
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
    for (int64_t step = window.lo; step <= window.hi; ++step, to += bytes) {
      std::byte* row = to;
      if (!traced.shifts && !traced.zeros) {
        const uint32_t* slots = traced.slots(step) + first;
        for (size_t i = 0; i < items; ++i, row += item_bytes) {
          // Those of the next frame, too.
          const std::byte* const ahead = column.at(slots[std::min(i + kAhead, to_come - 1)]);
          __builtin_prefetch(ahead);
          if (bytes > 16) __builtin_prefetch(ahead + bytes - 1);  // they begin anywhere in a line
          copy_short(row, column.at(slots[i]), bytes);
        }
        continue;
      }
      for (size_t i = first; i < first + items; ++i, row += item_bytes) {
        if (const uint32_t slot = traced.slot(i, step); slot == kNoSlot) {
          std::memset(row, 0, bytes);
        } else {
          copy_short(row, column.at(slot), bytes);
        }
      }
    }
  };
  switch (window.row_bytes) {
    case 1:
      return copy(std::integral_constant<size_t, 1>{});
    case 4:
      return copy(std::integral_constant<size_t, 4>{});
    case 8:
      return copy(std::integral_constant<size_t, 8>{});
    case 16:
      return copy(std::integral_constant<size_t, 16>{});
    default:
      return copy(size_t{window.row_bytes});
  }
}

}  // namespace

bool Table::gather(const DrawnBatch& drawn, uint64_t offset, std::span<std::byte> out,
                   Loans* loans) const {
  const uint64_t n = drawn.keys.size();
  DRLNET_ASSERT(offset + out.size() <= layout_.total_bytes(n));
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
      put(to.data(), static_cast<const std::byte*>(bytes) + from, to.size(), loans);
      return true;
    });
  };
  flat(0, &drawn.header, sizeof drawn.header);
  flat(layout_.keys(n), drawn.keys.data(), 8 * n);
  flat(layout_.probabilities(n), drawn.probabilities.data(), 4 * n);
  flat(layout_.lengths(n), drawn.lengths.data(), 4 * n);
  uint64_t begin = layout_.window(n, 0);
  for (const Window& window : layout_.windows()) {
    const uint64_t bytes = n * window.item_bytes();
    if (!section(begin, bytes, [&](uint64_t from, std::span<std::byte> to) {
          return gather_window(drawn, window, from, to, loans);
        })) {
      return false;
    }
    begin = SampleLayout::align64(begin + bytes);
  }
  flat(begin, nullptr, 0);
  return true;
}

bool Table::gather_window(const DrawnBatch& drawn, const Window& window, uint64_t offset,
                          std::span<std::byte> out, Loans* loans) const {
  if (drawn.traced && ring_.stored(drawn.oldest)) {
    gather_traced(drawn, window, offset, out, loans);
    return true;
  }
  const uint64_t item_bytes = window.item_bytes();
  size_t i = offset / item_bytes;
  uint64_t skip = offset % item_bytes;
  const size_t last = (offset + out.size() - 1) / item_bytes;
  for (size_t next = i; next <= std::min(last, i + kAhead - 1); ++next) {
    prefetch(window, drawn.keys[next]);
  }
  while (!out.empty()) {
    if (i + kAhead <= last) prefetch(window, drawn.keys[i + kAhead]);
    const size_t bytes = std::min<uint64_t>(item_bytes - skip, out.size());
    if (!gather_item(window, drawn.keys[i], drawn.lengths[i], skip, out.first(bytes), loans)) {
      return false;
    }
    out = out.subspan(bytes);
    skip = 0;
    ++i;
  }
  return true;
}

// The items' anchors, to be filled in. Their number is that of the keys.
std::span<uint32_t> Table::begin_trace(DrawnBatch& drawn) const {
  const size_t n = drawn.keys.size();
  drawn.traced = false;
  drawn.slots.resize(traced_ ? (back_ + 1 + horizon_) * n : n);
  return std::span(drawn.slots).subspan(traced_ ? back_ * n : 0, n);
}

// Finds the items' other rows, once for all windows: one step of all items after another, so that
// their cache misses overlap. Anchors, lengths and the oldest anchor's number are there.
void Table::trace(DrawnBatch& drawn) const {
  if (!traced_) return;
  const size_t n = drawn.keys.size();
  const uint32_t* lengths = drawn.lengths.data();
  uint32_t* anchors = drawn.slots.data() + back_ * n;
  for (uint32_t step = 1; step <= horizon_; ++step) {
    const uint32_t* from = anchors + (step - 1) * n;
    uint32_t* to = anchors + step * n;
    for (size_t i = 0; i < n; ++i) {
      to[i] = lengths[i] >= step ? ring_.row(from[i]).next : from[i];
      __builtin_prefetch(&ring_.row(to[i]));
    }
  }
  for (uint32_t step = back_; step > 0; --step) {
    const uint32_t* from = drawn.slots.data() + step * n;
    uint32_t* to = drawn.slots.data() + (step - 1) * n;
    for (size_t i = 0; i < n; ++i) {
      const Row& row = ring_.row(from[i]);
      to[i] = (stop_ ? row.since_first : row.step) > 0 ? row.previous : from[i];
      __builtin_prefetch(&ring_.row(to[i]));
      drawn.oldest = std::min(drawn.oldest, ring_.number_at(to[i]));
    }
  }
  drawn.traced = true;
}

// Whole items of a short column go together, the parts of items before and behind them row by row.
void Table::gather_traced(const DrawnBatch& drawn, const Window& window, uint64_t offset,
                          std::span<std::byte> out, Loans* loans) const {
  const uint64_t item_bytes = window.item_bytes();
  const Traced traced{
      .anchors = drawn.slots.data() + back_ * drawn.keys.size(),
      .lengths = drawn.lengths.data(),
      .n = static_cast<int64_t>(drawn.keys.size()),
      .horizon = horizon_,
      // With a horizon of one step every item has its full length.
      .shifts = window.align == Align::end && horizon_ > 1,
      .zeros = window.pad == Pad::zero && (window.lo < 0 || horizon_ > 1),
  };
  const RingColumn column = ring_.column(window.column);
  const uint64_t before = (item_bytes - offset % item_bytes) % item_bytes;
  if (window.row_bytes <= kShortBytes && out.size() >= before + item_bytes) {
    const size_t items = (out.size() - before) / item_bytes;
    put_rows(traced, window, column, offset, out.first(before), loans);
    put_items(traced, window, column, (offset + before) / item_bytes, items, out.data() + before);
    offset += before + items * item_bytes;
    out = out.subspan(before + items * item_bytes);
  }
  put_rows(traced, window, column, offset, out, loans);
}

// Where the item's bytes most likely are: its rows mostly lie together.
void Table::prefetch(const Window& window, uint64_t key) const {
  const uint64_t number = key - key_base_;
  if (!ring_.stored(number)) return;
  const int64_t slot = ring_.place(number).slot;
  __builtin_prefetch(&ring_.row(static_cast<uint32_t>(slot)));
  const RingColumn& column = ring_.column(window.column);
  const auto row_at = [&](int64_t offset) {
    const int64_t at = std::clamp<int64_t>(slot + offset, 0, ring_.size() - 1);
    return column.at(static_cast<uint64_t>(at));
  };
  __builtin_prefetch(row_at(window.lo));
  __builtin_prefetch(row_at(window.hi) + window.row_bytes - 1);
}

// The window's rows are lo to hi, as seen from the anchor; what lies before the stream's
// (episode's) start and after the item's end is padded.
bool Table::gather_item(const Window& window, uint64_t key, uint32_t length, uint64_t offset,
                        std::span<std::byte> out, Loans* loans) const {
  const uint64_t number = key - key_base_;
  if (!ring_.stored(number)) {
    if (key != kNoKey) return false;
    std::memset(out.data(), 0, out.size());  // looked up, and not held even then
    return true;
  }
  RowPlace place = ring_.place(number);
  const RingColumn& column = ring_.column(window.column);
  const uint64_t row_bytes = window.row_bytes;
  const int64_t shift = window.align == Align::end ? int64_t{horizon_} - length : 0;
  const int64_t lo = window.lo - shift, hi = window.hi - shift;
  if (lo == 0 && hi == 0) {  // the anchor alone: no need to look at links
    put(out.data(), column.at(place.slot) + offset, out.size(), loans);
    return true;
  }
  const auto end = static_cast<int64_t>(length);
  const int64_t start = lo < 0 ? -static_cast<int64_t>(back_of(ring_.row(place.slot))) : 0;
  const int64_t first = std::clamp(lo, start, end), last = std::clamp(hi, start, end);
  for (int64_t at = 0; at > first; --at) {
    if (!ring_.step_back(place)) return false;
  }
  for (int64_t at = 0; at < first; ++at) DRLNET_ASSERT(ring_.step_on(place));

  Filler filler(offset, out, loans);
  const auto pad = [&](int64_t rows) {
    for (; rows > 0 && !filler.full(); --rows) {
      if (window.pad == Pad::zero)
        filler.zero(row_bytes);
      else
        filler.rows(column.at(place.slot), row_bytes);
    }
  };
  pad(std::min(hi + 1, first) - lo);
  // Rows that lie together go together.
  const int64_t from = std::max(lo, first), to = std::min(hi, last);
  for (int64_t at = from; at <= to && !filler.full();) {
    const uint32_t slot = place.slot;
    uint32_t rows = 1;
    for (; at + rows <= to; ++rows) {
      DRLNET_ASSERT(ring_.step_on(place));
      if (place.slot != slot + rows || !column.together()) break;
    }
    filler.rows(column.at(slot), rows * row_bytes);
    at += rows;
  }
  pad(hi - std::max(lo - 1, last));
  return true;
}

}  // namespace drlnet
