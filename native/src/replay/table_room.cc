// How a queue makes room for an append: it loses nothing that was begun, and cannot deadlock.
//
// Rows leave in the order in which they came, but a stream that plays slowly may still need old
// ones: it has begun an item whose last rows are yet to come. The append that brings them may stand
// behind the one that wants the room, and its actor may be dead: to wait for it can take any time.
// So when a row leaves on which its stream has begun something, it moves to the head, with what the
// stream has behind it. A table has a stream for each two windows of its rows, and a stream has
// begun one window at most: half of the ring is always free of that.
//
// An append waits while rows would leave of an item that can be drawn: the reader is behind. But
// where such items make less than a batch, or take no more than half of the rows, the reader may be
// waiting for more of them. Then they move to the head as well, and keep their turn. So a queue
// goes on that holds a window for each item of a batch, one for each stream, and an append.
//
// What moves is twice in the ring until its old place is free: an append moves no more rows than
// the ring has in reserve. That is enough for a batch, and for what streams have begun in up to
// 65,536 rows. Beyond that, or where a table holds less than a batch and all that was begun, the
// batch stays, and what was begun retires. The reserve is free for that: a queue's replies are
// whole when they are drawn.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "replay/table.h"

namespace drlnet {

// Whether an append of that many rows finds room, and how: noted for it. has_batch: whether all
// shards of the table have one between them.
bool Table::find_room(uint64_t rows, bool has_batch) {
  way_ = {};
  if (ring_.oldest_after(rows) == ring_.oldest()) return true;
  const bool few = !has_batch || 2 * live_items() * reach_.rows() <= ring_.capacity();
  for (const Moves moves : {Moves::begun, Moves::both, Moves::live}) {
    if (moves != Moves::begun && !few) break;
    if (moves == Moves::live && has_batch) break;
    const std::optional<uint64_t> moved = clear_tail(rows, moves, false);
    if (!moved) continue;
    way_ = {rows, *moved, moves};
    return true;
  }
  return live_items() == 0;
}

// The first step of what the stream has begun or is about to, next_step where that is nothing.
uint64_t Table::begun_from(const Stream& stream) const {
  if (!stream.leased || stream.next_step == 0) return stream.next_step;
  // Counted as period_step() does.
  const uint64_t newest = reach_.stops ? stream.since_first : stream.next_step - 1;
  const uint64_t most = std::max<uint64_t>(reach_.horizon, 1);
  const uint64_t open = newest < most ? 0 : newest - most + 1;
  const uint64_t period = spec_.item.period;
  const uint64_t anchor = (open + period - 1) / period * period;
  const uint64_t from = anchor - std::min<uint64_t>(anchor, reach_.back);
  return from > newest ? stream.next_step : stream.next_step - 1 - (newest - from);
}

// How many rows must move to the head for `rows` more to fit; std::nullopt: they do not. With
// `really` they move, and the oldest rows are evicted. O(rows that leave or move).
std::optional<uint64_t> Table::clear_tail(uint64_t rows, Moves moves, bool really) {
  const uint64_t head = ring_.head(), oldest = ring_.oldest();
  const uint64_t most = std::min(ring_.size() - ring_.capacity(), ring_.capacity());
  uint64_t moved = 0;
  ++scan_count_;
  const auto left = [&] {
    const uint64_t all = head + rows + moved;
    return std::min(head, std::max(oldest, all > ring_.capacity() ? all - ring_.capacity() : 0));
  };
  for (uint64_t number = oldest; number < left(); ++number) {
    const RowPlace place = ring_.place(number);
    const Row& row = ring_.row(place.slot);
    Stream& stream = streams_.at(row.ordinal);
    const bool own = stream.first_number <= number && (row.flags & kApart) == 0;
    if (own && moves != Moves::live && stream.scan != scan_count_ &&
        row.step >= begun_from(stream)) {
      stream.scan = scan_count_;
      const uint64_t count = stream.next_step - row.step;
      moved += count;
      if (really) move_begun(stream, place, count);
    }
    RowPlace anchor = place;
    for (uint32_t back = 0;; ++back) {
      const Row& item = ring_.row(anchor.slot);
      if (reach_.stops && back > 0 && (item.flags & kFirst) != 0) break;
      if (item.state == ItemState::live && rows_before(reach_, item) == back) {
        if (moves == Moves::begun) return std::nullopt;
        const uint64_t count = back + 1 + item.length;
        moved += count;
        if (really) move_rows(place, count, kApart, back);
      }
      if (back == reach_.back || !ring_.step_on(anchor)) break;
    }
    if (moved > most || rows + moved > ring_.capacity()) return std::nullopt;
    if (really) evict(place);
  }
  return moved;
}

// All of the stream's rows from that one on: its next row follows the copies.
void Table::move_begun(Stream& stream, RowPlace first, uint64_t count) {
  stream.oldest_step = std::max(stream.oldest_step, ring_.row(first.slot).step);
  stream.first_number = ring_.head();
  move_rows(first, count, 0, 0);
  stream.last_number = ring_.head() - 1;
}

// Copies rows of one stream to the head, and moves their items there: of rows that are to stand
// apart, the one at `anchor`. What was there stays until it is evicted.
void Table::move_rows(RowPlace from, uint64_t count, uint8_t flags, uint64_t anchor) {
  uint32_t previous = kNoSlot;
  for (uint64_t i = 0; i < count; ++i) {
    if (i > 0) DRLNET_ASSERT(ring_.step_on(from));
    const uint32_t slot = ring_.head_slot();
    const uint64_t source = ring_.row_slot(from.number), target = ring_.row_slot(ring_.head());
    for (size_t c = 0; c < ring_.columns(); ++c) {
      const RowColumn& column = ring_.column(c);
      std::memcpy(column.at(target), column.at(source), column.row_bytes);
    }
    Row& old = ring_.row(from.slot);
    Row& row = ring_.row(slot) = old;
    row.flags |= flags;
    row.previous = previous;
    row.next = kNoSlot;
    if (previous != kNoSlot) ring_.row(previous).next = slot;
    previous = slot;
    // Copied apart, rows are there for one item: others have their own copies. And one that can be
    // drawn does without what its stream has begun behind it.
    const bool goes = flags == 0 ? row.state != ItemState::live : i == anchor;
    if (goes) {
      move_item(from.slot, slot);
    } else {
      row.state = ItemState::retired;
      if (unsaved_) unsaved_->mark(slot);
    }
    ring_.advance(1);
  }
  rows_moved_ += count;
}

void Table::move_item(uint32_t from, uint32_t to) {
  Row& old = ring_.row(from);
  const ItemState state = std::exchange(old.state, ItemState::retired);
  if (state == ItemState::live) {
    sampler_->move(from, to);
    drawable_.reset(from);
    drawable_.set(to);
    if (changes_) changes_->add(std::array{from, to});
  }
  if (unsaved_ && state != ItemState::none) {
    const bool pending = state == ItemState::pending;
    unsaved_->mark(to, pending ? old.priority : unsaved_->priority(from));
    unsaved_->mark(from);
  }
}

}  // namespace drlnet
