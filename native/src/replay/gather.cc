// Where the rows of drawn items lie: found once for all windows of a reply, or anew by their keys
// and links.
#include "replay/gather.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "rows/gather.h"
#include "spec/items.h"

namespace drlnet {
namespace {

// Writes a range of a stream of bytes that is offered from its start: skips, then fills out.
class Filler {
 public:
  Filler(uint64_t skip, std::span<std::byte> out, RowSink sink)
      : skip_(skip), next_(out.data()), left_(out.size()), sink_(sink) {}

  bool full() const { return left_ == 0; }

  void rows(const std::byte* from, uint64_t bytes) {
    if (!clip(bytes)) return;
    copy_row(next_, from + skipped_, clipped_, sink_);
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
  RowSink sink_;
  uint64_t skipped_ = 0, clipped_ = 0;
};

constexpr uint32_t kMostTraced = 16;  // rows of an item

}  // namespace

Gather::Gather(const TableSpec& spec, const Ring& ring, uint64_t key_base)
    : layout_(spec),
      reach_(spec.item),
      traces_(reach_.rows() <= kMostTraced),
      ring_(ring),
      key_base_(key_base) {}

std::span<uint32_t> Gather::begin(DrawnBatch& drawn, bool whole) const {
  const size_t n = drawn.keys.size();
  drawn.traces = traces_ || whole;
  drawn.traced = false;
  drawn.slots.resize(drawn.traces ? reach_.rows() * n : n);
  return std::span(drawn.slots).subspan(drawn.traces ? reach_.back * n : 0, n);
}

void Gather::trace(DrawnBatch& drawn) const {
  const size_t n = drawn.keys.size();
  uint32_t* lengths = drawn.lengths.data();
  uint32_t* anchors = drawn.slots.data() + (drawn.traces ? reach_.back * n : 0);
  if (reach_.horizon > 0) {
    uint32_t* to = drawn.traces ? anchors + n : nullptr;
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
  if (!drawn.traces) return;
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

bool Gather::write(const DrawnBatch& drawn, uint64_t offset, std::span<std::byte> out,
                   RowSink sink) const {
  return write_batch(layout_, drawn, offset, out, sink,
                     [&](const Window& window, uint64_t from, std::span<std::byte> to) {
                       return write_window(drawn, window, from, to, sink);
                     });
}

bool Gather::write_window(const DrawnBatch& drawn, const Window& window, uint64_t offset,
                          std::span<std::byte> out, RowSink sink) const {
  if (drawn.traced && ring_.stored(drawn.oldest)) {
    write_traced(drawn, reach_, window, ring_.column(window.column), offset, out, sink);
    return true;
  }
  const uint64_t item_bytes = window.item_bytes();
  size_t i = offset / item_bytes;
  uint64_t skip = offset % item_bytes;
  const size_t last = (offset + out.size() - 1) / item_bytes;
  for (size_t next = i; next <= std::min(last, i + kRowsAhead - 1); ++next) {
    prefetch(window, drawn.keys[next]);
  }
  while (!out.empty()) {
    if (i + kRowsAhead <= last) prefetch(window, drawn.keys[i + kRowsAhead]);
    const size_t bytes = std::min<uint64_t>(item_bytes - skip, out.size());
    if (!write_item(window, drawn.keys[i], drawn.lengths[i], skip, out.first(bytes), sink)) {
      return false;
    }
    out = out.subspan(bytes);
    skip = 0;
    ++i;
  }
  return true;
}

// Where the item's bytes most likely are: its rows mostly lie together.
void Gather::prefetch(const Window& window, uint64_t key) const {
  const uint64_t number = key - key_base_;
  if (!ring_.stored(number)) return;
  const int64_t slot = ring_.place(number).slot;
  __builtin_prefetch(&ring_.row(static_cast<uint32_t>(slot)));
  const RowColumn& column = ring_.column(window.column);
  const auto row_at = [&](int64_t offset) {
    const int64_t at = std::clamp<int64_t>(slot + offset, 0, ring_.size() - 1);
    return column.at(static_cast<uint64_t>(at));
  };
  __builtin_prefetch(row_at(window.lo));
  __builtin_prefetch(row_at(window.hi) + window.row_bytes - 1);
}

// The window's rows are lo to hi, as seen from the anchor; what lies before the stream's
// (episode's) start and after the item's end is padded.
bool Gather::write_item(const Window& window, uint64_t key, uint32_t length, uint64_t offset,
                        std::span<std::byte> out, RowSink sink) const {
  const uint64_t number = key - key_base_;
  if (!ring_.stored(number)) {
    if (key != kNoKey) return false;
    std::memset(out.data(), 0, out.size());  // looked up, and not held even then
    return true;
  }
  RowPlace place = ring_.place(number);
  const RowColumn& column = ring_.column(window.column);
  const uint64_t row_bytes = window.row_bytes;
  const int64_t shift = window.align == Align::end ? int64_t{reach_.horizon} - length : 0;
  const int64_t lo = window.lo - shift, hi = window.hi - shift;
  if (lo == 0 && hi == 0) {  // the anchor alone: no need to look at links
    copy_row(out.data(), column.at(place.slot) + offset, out.size(), sink);
    return true;
  }
  const auto end = static_cast<int64_t>(length);
  const int64_t start =
      lo < 0 ? -static_cast<int64_t>(rows_before(reach_, ring_.row(place.slot))) : 0;
  const int64_t first = std::clamp(lo, start, end), last = std::clamp(hi, start, end);
  for (int64_t at = 0; at > first; --at) {
    if (!ring_.step_back(place)) return false;
  }
  for (int64_t at = 0; at < first; ++at) DRLNET_ASSERT(ring_.step_on(place));

  Filler filler(offset, out, sink);
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
