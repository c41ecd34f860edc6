#include "replay/table_state.h"

#include <algorithm>
#include <bit>

#include "base/printable.h"
#include "replay/table.h"

namespace drlnet {
namespace {

Error unsound(const TableSpec& spec, const char* what) {
  return {Status::config, "table '" + printable(spec.name) + "': " + what,
          "serve the state with the drlnet that wrote it"};
}

// In an unbroken run of steps of one stream.
bool comes_after(const Row& row, const Row& before) {
  const uint32_t since_first = (row.flags & kFirst) != 0 ? 0 : before.since_first + 1;
  return row.step == before.step + 1 && row.since_first == since_first;
}

}  // namespace

void Table::begin_saving() {
  unsaved_ = std::make_unique<Unsaved>(ring_.size());
  for (const SavedItem& item : restored_items_) unsaved_->mark(item.slot, item.priority);
  restored_items_ = {};
}

void Table::save(TableState& state) {
  state.counters = {.head = ring_.head(),
                    .oldest = ring_.oldest(),
                    .slots = ring_.size(),
                    .items_created = items_created_,
                    .items_drawn = items_drawn_,
                    .env_steps = env_steps_,
                    .items_ignored = items_ignored_,
                    .items_refused = items_refused_,
                    .items_retired = items_retired_,
                    .rows_ignored = rows_ignored_,
                    .applied_updates = applied_updates_,
                    .stale_updates = stale_updates_,
                    .maximum_priority = maximum_priority_};
  std::ranges::copy(random_.state(), state.counters.random);
  streams_.save(state.streams);
  state.items.clear();
  state.items.reserve(unsaved_->list().size());
  for (const uint32_t slot : unsaved_->list()) {
    const Row& row = ring_.row(slot);
    state.items.push_back({slot, unsaved_->priority(slot), row.draws, row.state, 0});
  }
  unsaved_->clear();
}

bool Table::would_overwrite_saving(const Append& append) {
  if (saving_from_ == kNoNumber) return false;
  return ring_.head() + new_rows(append) + way_.moved > saving_from_ + ring_.size();
}

Ring& Table::restore_rows(const TableCounters& counters) {
  // Shards of a queue had a smaller reserve once.
  if (counters.slots < ring_.capacity() || counters.slots > ring_.size() ||
      counters.oldest > counters.head || counters.head - counters.oldest > ring_.capacity()) {
    throw unsound(spec_, "its saved rows do not fit it");
  }
  ring_.restore(counters.head, counters.oldest);
  columns_from_ = counters.head;
  const Row none{.step = 0,
                 .ordinal = 0,
                 .previous = kNoSlot,
                 .next = kNoSlot,
                 .since_first = 0,
                 .priority = 0,
                 .flags = 0,
                 .state = ItemState::none,
                 .draws = 0};
  const uint64_t stored = std::min<uint64_t>(ring_.head(), ring_.size());
  for (uint64_t number = ring_.head() - stored; number < ring_.head(); ++number) {
    ring_.row(ring_.place(number).slot) = none;
  }
  return ring_;
}

// Finds the rows' neighbours in their streams, and the oldest step that each stream holds.
void Table::link_rows() {
  struct Newest {
    RowPlace place{kNoNumber, kNoSlot};
    bool held = false;  // some row of the stream's present lease is
  };
  std::vector<Newest> newest(streams_.count()), apart(streams_.count());
  for (uint32_t i = 0; i < newest.size(); ++i) {
    streams_.at(i).oldest_step = streams_.at(i).next_step;
  }
  for (uint64_t number = ring_.oldest(); number < ring_.head(); ++number) {
    const RowPlace place = ring_.place(number);
    Row& row = ring_.row(place.slot);
    if (row.ordinal >= newest.size()) throw unsound(spec_, "a saved row names no stream");
    const bool is_apart = (row.flags & kApart) != 0;
    Newest& before = (is_apart ? apart : newest)[row.ordinal];
    // A lease begins with step 0: no row of another one has this neighbour's number.
    const bool follows =
        before.place.slot != kNoSlot && comes_after(row, ring_.row(before.place.slot));
    if (follows) {
      row.previous = before.place.slot;
      ring_.row(before.place.slot).next = place.slot;
    }
    before.place = place;
    Stream& stream = streams_.at(row.ordinal);
    if (is_apart || stream.first_number > number) continue;
    if (!before.held) stream.oldest_step = row.step;
    if (before.held && !follows) throw unsound(spec_, "a saved stream lacks rows");
    before.held = true;
  }
  for (uint32_t i = 0; i < newest.size(); ++i)
    check_newest(streams_.at(i), newest[i].held, newest[i].place);
}

// The stream goes on behind the newest of its rows that are held, if any is.
void Table::check_newest(const Stream& stream, bool held, RowPlace newest) const {
  bool sound = stream.last_number < ring_.oldest() || stream.last_number == kNoNumber;
  if (held) {
    const Row& row = ring_.row(newest.slot);
    sound = stream.last_number == newest.number && stream.next_step == row.step + 1 &&
            stream.since_first == row.since_first && stream.open == ((row.flags & kLast) == 0);
  }
  if (!sound) throw unsound(spec_, "a saved stream does not go on behind its rows");
}

// slots: of the ring that was saved.
void Table::restore_item(SavedItem item, uint64_t slots) {
  if (item.slot >= slots) return;
  const uint64_t head_slot = ring_.head() % slots;
  const uint64_t age = head_slot + (item.slot < head_slot ? 0 : slots) - item.slot;
  const uint64_t number = ring_.head() - age;
  if (number < ring_.oldest() || number >= ring_.head()) return;
  const RowPlace place = ring_.place(number);
  item.slot = place.slot;
  Row& row = ring_.row(item.slot);
  if (row.state != ItemState::none) return;
  uint32_t length = 0;
  bool ended = false, broken = false;
  for (RowPlace next = place; length < reach_.horizon && !ended && ring_.step_on(next); ++length) {
    const uint8_t flags = ring_.row(next.slot).flags;
    ended = reach_.stops && (flags & kLast) != 0;
    broken |= reach_.stops && (flags & kFirst) != 0;
  }
  const bool complete = ended || length == reach_.horizon;
  // What add_item() would have refused can never be drawn.
  const bool possible = !broken && !(reach_.stops && (row.flags & kLast) != 0) &&
                        period_step(row) % spec_.item.period == 0 &&
                        !(complete && item.state == ItemState::pending);
  bool whole = true;  // rows may have been given up that it looks back to
  RowPlace at = place;
  for (uint64_t i = rows_before(reach_, row); i > 0 && whole; --i) {
    whole = ring_.step_back(at) && at.number >= ring_.oldest();
  }
  if (item.state == ItemState::none) return;
  if (!whole || !possible || item.state == ItemState::retired) {
    row.state = ItemState::retired;
  } else if (item.state == ItemState::live && complete) {
    go_live(item.slot, item.priority, length);
    row.draws = item.draws;
    draws_left_ -= item.draws;
  } else {
    row.state = ItemState::pending;
    row.priority = item.priority;
    ++pending_items_;
  }
  restored_items_.push_back(item);
}

void Table::restore(const TableState& state) {
  if (state.streams.size() > streams_.maximum()) {
    throw unsound(spec_, "its saved streams do not fit it");
  }
  streams_.restore(state.streams);
  link_rows();
  for (const SavedItem& item : state.items) restore_item(item, state.counters.slots);
  std::ranges::make_heap(late_, {}, &Late::oldest);
  restored_ = true;
  const TableCounters& counters = state.counters;
  items_created_ = counters.items_created;
  items_drawn_ = counters.items_drawn;
  env_steps_ = counters.env_steps;
  items_ignored_ = counters.items_ignored;
  items_refused_ = counters.items_refused;
  items_retired_ = counters.items_retired;
  rows_ignored_ = counters.rows_ignored;
  applied_updates_ = counters.applied_updates;
  stale_updates_ = counters.stale_updates;
  maximum_priority_ = counters.maximum_priority;
  random_ = Random(std::to_array(counters.random));
  logical_->restore(shard(), items_created_, items_drawn_, {live_items(), draws_left_});
  count_streams();
}

void Table::have_columns_from(uint64_t number) {
  columns_from_ = number;
  auto end = late_.end();
  for (; end != late_.begin() && late_.front().oldest >= number; --end) {
    std::ranges::pop_heap(late_.begin(), end, {}, &Late::oldest);
  }
  std::ranges::sort(end, late_.end(), {}, &Late::number);
  for (auto late = end; late != late_.end(); ++late) {
    if (late->number < ring_.oldest()) continue;
    const uint32_t slot = ring_.place(late->number).slot;
    if (ring_.row(slot).state == ItemState::live) make_drawable(slot, late->priority);
  }
  late_.erase(end, late_.end());
  if (number == 0) late_.shrink_to_fit();
  count_stock(0);
}

uint64_t Table::give_up(uint64_t first, uint64_t end) {
  first = std::max(first, ring_.oldest());
  for (uint64_t number = first; number < end; ++number) {
    RowPlace place = ring_.place(number);
    evict(place);
    for (uint32_t i = 0; i < reach_.horizon && ring_.step_back(place); ++i) {
      if (reach_.stops && (ring_.row(place.slot).flags & kLast) != 0) break;
      retire(place.slot);
    }
  }
  return end - std::min(first, end);
}

}  // namespace drlnet
