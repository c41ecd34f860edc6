// How rows and items come into a table, and how they leave it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "replay/table.h"

namespace drlnet {

// Where an append's latest item is anchored: the next one is usually a row or two further on.
struct Table::ItemPlace {
  const Stream* stream = nullptr;
  uint64_t step = 0;
  RowPlace place{};
};

Status Table::append(const Append& append, AppendResult& result) {
  result = {};
  if (const Status status = check_append(append, result); status != Status::ok) {
    give_room_back();
    return status;
  }
  if (const Way way = std::exchange(way_, {}); way.rows > 0) {
    clear_tail(way.rows, way.moves, true);
  }
  size_t first_row = 0;
  for (const AppendSegment& segment : append.segments) {
    Stream& stream = streams_.at(segment.ordinal);
    // Checked: no segment starts beyond its stream's next step.
    const size_t known = std::min<uint64_t>(segment.rows, stream.next_step - segment.first_step);
    result.rows_ignored += static_cast<uint32_t>(known);
    result.rows_stored += segment.rows - static_cast<uint32_t>(known);
    store_rows(append, segment, first_row + known, segment.rows - known);
    first_row += segment.rows;
  }
  ItemPlace latest;
  for (const AppendItem& item : append.items) {
    switch (add_item(item, latest)) {
      case Added::created:
        ++result.items_created;
        break;
      case Added::known:
        ++result.items_ignored;
        break;
      case Added::refused:
        ++result.items_refused;
        break;
    }
  }
  count_stock(result.items_created);
  rows_ignored_ += result.rows_ignored;
  items_ignored_ += result.items_ignored;
  items_refused_ += result.items_refused;
  return Status::ok;
}

bool Table::may_insert(const Append& append, uint32_t session) {
  const uint64_t items = append.items.size();
  if (items == 0 && !is_queue()) return true;
  const bool has_batch = is_queue() && logical_->has_batch();
  const bool full = is_queue() && !find_room(new_rows(append), has_batch);
  const Waiter waiter{Waiter::Want::insert, shard(), session, items, 0, full, has_batch};
  if (logical_->ask(waiter) != Wait::none) {
    way_ = {};
    return false;
  }
  room_ = items;
  return true;
}

// Those that are not stored yet; of an append that will be refused any number will do.
uint64_t Table::new_rows(const Append& append) {
  uint64_t rows = 0;
  for (const AppendSegment& segment : append.segments) {
    const Stream* stream = streams_.find(segment.ordinal, segment.epoch);
    if (stream == nullptr) continue;
    const uint64_t next = std::max(stream->next_step, segment.first_step);
    rows += segment.rows - std::min<uint64_t>(segment.rows, next - segment.first_step);
  }
  return rows;
}

Status Table::check_append(const Append& append, AppendResult& result) {
  ++append_count_;
  const size_t rows = append.row_flags.size();
  if (append.columns.size() != spec_.columns.size()) return Status::bad_request;
  for (size_t c = 0; c < append.columns.size(); ++c) {
    if (append.columns[c].size() != rows * ring_.column(c).row_bytes) return Status::bad_request;
  }
  size_t first_row = 0;
  for (const AppendSegment& segment : append.segments) {
    if (segment.rows > rows - first_row) return Status::bad_request;
    const auto flags = append.row_flags.subspan(first_row, segment.rows);
    const Status status = check_segment(append, segment, flags, result);
    if (status != Status::ok) return status;
    first_row += segment.rows;
  }
  if (first_row != rows) return Status::bad_request;
  for (const AppendItem& item : append.items) {
    if (streams_.find(item.ordinal, item.epoch) == nullptr) {
      result.ordinal = item.ordinal;
      return Status::unknown_lease;
    }
    if ((item.flags & ~kUseMaximum) != 0) return Status::bad_request;
    const bool given = (item.flags & kUseMaximum) == 0;
    if (given && (!std::isfinite(item.priority) || item.priority < 0)) return Status::bad_priority;
  }
  return Status::ok;
}

Status Table::check_segment(const Append& append, const AppendSegment& segment,
                            std::span<const uint8_t> flags, AppendResult& result) {
  result.ordinal = segment.ordinal;
  Stream* stream = streams_.find(segment.ordinal, segment.epoch, segment.token, append.holder);
  if (stream == nullptr) return Status::unknown_lease;
  if (stream->staged_append != append_count_) {
    stream->staged_append = append_count_;
    stream->staged_step = stream->next_step;
    stream->staged_open = stream->open;
  }
  if (segment.first_step > stream->staged_step) {
    result.expected_step = stream->next_step;
    return Status::stream_gap;
  }
  const uint64_t known = stream->staged_step - segment.first_step;
  for (size_t i = known; i < flags.size(); ++i) {
    if ((flags[i] & ~(kFirst | kLast)) != 0) return Status::bad_request;
    if (!stream->staged_open && (flags[i] & kFirst) == 0) return Status::bad_request;
    stream->staged_open = (flags[i] & kLast) == 0;
    ++stream->staged_step;
  }
  result.ordinal = 0;
  return Status::ok;
}

void Table::store_rows(const Append& append, const AppendSegment& segment, size_t first_row,
                       size_t rows) {
  Stream& stream = streams_.at(segment.ordinal);
  while (rows > 0) {
    const size_t piece = ring_.piece(rows);
    for (uint64_t number = ring_.oldest(); number < ring_.oldest_after(piece); ++number) {
      evict(ring_.place(number));
    }
    store_piece(append, stream, segment.ordinal, first_row, piece);
    complete_items(stream, piece, false);
    first_row += piece;
    rows -= piece;
  }
}

// The rows fit at the head in one piece, and those that they push out are evicted.
void Table::store_piece(const Append& append, Stream& stream, uint32_t ordinal, size_t first_row,
                        size_t rows) {
  const uint32_t first_slot = ring_.head_slot(), first_place = ring_.row_slot(ring_.head());
  for (size_t c = 0; c < append.columns.size(); ++c) {
    const RowColumn& column = ring_.column(c);
    const std::byte* from = append.columns[c].data() + first_row * column.row_bytes;
    const size_t pieces = column.together() ? 1 : rows;
    const uint64_t bytes = rows / pieces * column.row_bytes;
    for (size_t i = 0; i < pieces; ++i, from += bytes) {
      std::memcpy(column.at(first_place + i), from, bytes);
    }
  }
  if (stream.next_step == 0) stream.first_number = ring_.head();
  uint32_t previous = kNoSlot;
  if (stream.next_step > 0 && ring_.stored(stream.last_number)) {
    previous = ring_.place(stream.last_number).slot;
    ring_.row(previous).next = first_slot;
  }
  for (uint32_t i = 0; i < rows; ++i) {
    const uint8_t flags = append.row_flags[first_row + i];
    stream.since_first = (flags & kFirst) != 0 ? 0 : stream.since_first + 1;
    ring_.row(first_slot + i) = {.step = stream.next_step++,
                                 .ordinal = ordinal,
                                 .previous = previous,
                                 .next = i + 1 < rows ? first_slot + i + 1 : kNoSlot,
                                 .since_first = stream.since_first,
                                 .priority = 0,
                                 .flags = flags,
                                 .state = ItemState::none,
                                 .draws = 0};
    previous = first_slot + i;
    env_steps_ += (flags & kLast) == 0;
  }
  stream.open = (append.row_flags[first_row + rows - 1] & kLast) == 0;
  stream.last_number = ring_.head() + rows - 1;
  ring_.advance(rows);
}

// Promotes the stream's pending items whose window the newest rows completed, and retires those
// whose episode was broken: a FIRST row came after a row that was not LAST, or the stream ended.
// Walks back over the new rows and the horizon behind them.
void Table::complete_items(const Stream& stream, uint64_t new_rows, bool broken) {
  if (pending_items_ == 0 || stream.next_step == 0) return;
  if (!ring_.stored(stream.last_number)) return;
  RowPlace place = ring_.place(stream.last_number);
  uint64_t ahead = 0;   // rows of the stream after this one
  uint64_t behind = 0;  // rows of the stream after its episode's newest
  bool ended = (ring_.row(place.slot).flags & kLast) != 0;
  for (;; ++ahead) {
    const Row& row = ring_.row(place.slot);
    if (row.state == ItemState::pending) {
      const uint64_t length = reach_.stops ? ahead - behind : ahead;
      if (length >= reach_.horizon) {
        go_live(place.slot, row.priority, reach_.horizon);
      } else if (reach_.stops && ended) {
        go_live(place.slot, row.priority, static_cast<uint32_t>(length));
      } else if (broken) {
        retire(place.slot);
      }
    }
    const bool first = (row.flags & kFirst) != 0;
    if (ahead == new_rows + reach_.horizon || !ring_.step_back(place)) return;
    if (first && reach_.stops) {
      behind = ahead + 1;
      ended = (ring_.row(place.slot).flags & kLast) != 0;
      broken = !ended;
    }
  }
}

Table::Added Table::add_item(const AppendItem& item, ItemPlace& latest) {
  const Stream& stream = *streams_.find(item.ordinal, item.epoch);
  if (item.step >= stream.next_step || item.step < stream.oldest_step) return Added::refused;
  const auto far = [&](uint64_t step) {
    return step > item.step ? step - item.step : item.step - step;
  };
  const uint64_t newest = stream.next_step - 1;
  if (latest.stream != &stream || far(newest) < far(latest.step)) {
    latest = {&stream, newest, ring_.place(stream.last_number)};
  }
  // The stream holds all steps from the oldest on, so every link on the way leads somewhere.
  for (; latest.step > item.step; --latest.step) DRLNET_ASSERT(ring_.step_back(latest.place));
  for (; latest.step < item.step; ++latest.step) DRLNET_ASSERT(ring_.step_on(latest.place));

  const uint32_t slot = latest.place.slot;
  Row& row = ring_.row(slot);
  if (row.state != ItemState::none) return Added::known;
  if (reach_.stops && (row.flags & kLast) != 0) return Added::refused;
  if (period_step(row) % spec_.item.period != 0) return Added::refused;
  if (item.step - rows_before(reach_, row) < stream.oldest_step) return Added::refused;

  uint32_t length = 0;  // rows of the item's future that exist
  bool ended = false;
  for (RowPlace place = latest.place; length < reach_.horizon && !ended && ring_.step_on(place);) {
    const uint8_t flags = ring_.row(place.slot).flags;
    if (reach_.stops && (flags & kFirst) != 0) return Added::refused;  // the episode was broken
    ended = reach_.stops && (flags & kLast) != 0;
    ++length;
  }
  const bool given = (item.flags & kUseMaximum) == 0;
  if (given) maximum_priority_ = std::max(maximum_priority_, item.priority);
  const float priority = given ? item.priority : maximum_priority_;
  if (length == reach_.horizon || ended) {
    go_live(slot, priority, length);
  } else {
    row.state = ItemState::pending;
    row.priority = priority;
    ++pending_items_;
    if (unsaved_) unsaved_->mark(slot, priority);
  }
  return Added::created;
}

void Table::go_live(uint32_t slot, float priority, uint32_t length) {
  Row& row = ring_.row(slot);
  if (row.state == ItemState::pending) --pending_items_;
  row.state = ItemState::live;
  row.length = length;
  draws_left_ += spec_.limiter.max_times_sampled;
  if (unsaved_) unsaved_->mark(slot, priority);
  if (columns_from_ > 0) {
    const uint64_t number = ring_.number_at(slot);
    RowPlace oldest{number, slot};
    for (uint64_t i = rows_before(reach_, row); i > 0 && ring_.step_back(oldest);) --i;
    if (oldest.number < columns_from_) {
      late_.push_back({oldest.number, number, priority});
      if (restored_) std::ranges::push_heap(late_, {}, &Late::oldest);
      return;
    }
  }
  make_drawable(slot, priority);
}

void Table::make_drawable(uint32_t slot, float priority) {
  drawable_.set(slot);
  sampler_->insert(slot, priority);
  if (changes_) changes_->add({&slot, 1});
}

void Table::retire(uint32_t slot) {
  Row& row = ring_.row(slot);
  if (row.state == ItemState::pending) {
    --pending_items_;
  } else if (row.state == ItemState::live) {
    if (is_queue()) draws_left_ -= spec_.limiter.max_times_sampled - row.draws;
    if (drawable_.test(slot)) {
      sampler_->remove(slot);
      drawable_.reset(slot);
    }
  } else {
    return;
  }
  row.state = ItemState::retired;
  ++items_retired_;
  if (unsaved_) unsaved_->mark(slot);
}

void Table::empty() {
  for (uint64_t number = ring_.oldest(); number < ring_.head(); ++number) {
    evict(ring_.place(number));
  }
  ring_.forget();
  seen_.reset();
  count_stock(0);
}

// The row is no longer held: its item retires, and so do those that look back to it.
void Table::evict(RowPlace place) {
  const Row& row = ring_.row(place.slot);
  Stream& stream = streams_.at(row.ordinal);
  if (stream.first_number <= place.number) {
    stream.oldest_step = std::max(stream.oldest_step, row.step + 1);  // one apart is older
  }
  retire(place.slot);
  for (uint32_t i = 0; i < reach_.back && ring_.step_on(place); ++i) {
    if (reach_.stops && (ring_.row(place.slot).flags & kFirst) != 0) return;
    const bool known = ring_.row(place.slot).state == ItemState::live;
    retire(place.slot);
    // The evicted row itself need not be named: its key lies under the oldest one.
    if (known && changes_) changes_->add({&place.slot, 1});
  }
}

}  // namespace drlnet
