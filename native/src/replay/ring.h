// The rows of a table: a record per row, with 32 bytes of metadata and behind them the row's short
// columns as far as a cache line holds them; and one array for each column that is longer. An item
// of a vector environment is then one line for each of its rows, not one more for every column.
// Rows are numbered as they come; number n lies at slot n mod size. The newest `capacity` rows are
// held, the `reserve` behind them are gone for everyone but the replies that were drawn while they
// were held. Where clients hold the rows, the ring has an index alone: records without columns, and
// the newest rows, as many as the reserve, on their way to those clients.
// Threading: one thread. Everything is O(1) after construction.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mapping.h"
#include "rows/columns.h"
#include "spec/append.h"
#include "spec/table_spec.h"

namespace drlnet {

enum class ItemState : uint8_t {
  none = 0,     // no item anchors here
  pending = 1,  // its window is not complete yet
  live = 2,     // can be drawn
  retired =
      3,  // drawn as often as it may be; or a row that it needs is evicted, or will never come
};

struct Row {
  uint64_t step;
  uint32_t ordinal;   // of its stream
  uint32_t previous;  // slots of the neighbours in its stream, kNoSlot where there is none
  uint32_t next;
  uint32_t since_first;  // steps since its episode's FIRST
  union {
    float priority;   // while pending: what the item becomes live with
    uint32_t length;  // while live: its true number of steps
  };
  uint8_t flags;
  ItemState state;
  uint16_t draws;  // of a queue's item so far
};
static_assert(sizeof(Row) == 32);

// A row that is still stored, by number and by slot.
struct RowPlace {
  uint64_t number;
  uint32_t slot;
};

class Ring {
 public:
  explicit Ring(const TableSpec& spec, bool index_only = false);

  static uint64_t memory_bytes(const TableSpec& spec, bool index_only = false);

  uint32_t size() const { return size_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t bytes() const { return memory_.bytes(); }
  uint64_t head() const { return head_; }  // the number that the next row gets
  uint32_t head_slot() const { return head_slot_; }
  uint64_t oldest() const { return oldest_after(0); }  // that is held

  // Whether the row's bytes are still there: held, or in the reserve.
  bool stored(uint64_t number) const { return (number < head_) & (head_ - number <= size_); }
  RowPlace place(uint64_t number) const {  // stored(number)
    const auto age = static_cast<uint32_t>(head_ - number);
    return {number, head_slot_ - age + turn_if(age > head_slot_)};
  }
  // The slots of many rows, by keys that count as numbers do: the next row's is `end`. False when
  // one of them is not stored: the slots mean nothing then. Reckoned in 32 bits wherever those do,
  // and without a choice, so that the compiler finds several at a time.
  bool slots_of(std::span<const uint64_t> keys, uint64_t end, std::span<uint32_t> slots) const {
    const auto most = static_cast<uint32_t>(std::min<uint64_t>(head_, size_));
    const uint32_t size = size_, head_slot = head_slot_;
    uint32_t odd = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint64_t whole_age = end - keys[i];
      const auto age = static_cast<uint32_t>(whole_age);
      odd |= static_cast<uint32_t>(whole_age >> 32) | (age - 1 < most ? 0u : 1u);
      slots[i] = head_slot - age + (age > head_slot ? size : 0u);
    }
    return odd == 0;
  }
  // How many rows came since the one that a slot holds, and that one.
  uint32_t age_at(uint32_t slot) const { return head_slot_ - slot + turn_if(slot >= head_slot_); }
  uint64_t number_at(uint32_t slot) const { return head_ - age_at(slot); }

  // The neighbours in the row's stream; false when there is none or it is no longer stored.
  bool step_back(RowPlace& place) const {
    const uint32_t slot = row(place.slot).previous;
    if (slot == kNoSlot) return false;
    const uint64_t number = place.number - distance(slot, place.slot);
    if (!stored(number)) return false;
    place = {number, slot};
    return true;
  }
  bool step_on(RowPlace& place) const {
    const uint32_t slot = row(place.slot).next;
    if (slot == kNoSlot) return false;
    place = {place.number + distance(place.slot, slot), slot};
    return true;
  }

  Row& row(uint32_t slot) { return *reinterpret_cast<Row*>(record(slot)); }
  const Row& row(uint32_t slot) const { return *reinterpret_cast<const Row*>(record(slot)); }
  size_t record_bytes() const { return size_t{1} << record_shift_; }
  // Its slots are those of the ring, but in an index: see row_slot().
  const RowColumn& column(size_t index) const { return columns_[index]; }
  size_t columns() const { return columns_.size(); }
  // Where columns have the row of that number, and how many rows they have.
  uint32_t row_slot(uint64_t number) const { return static_cast<uint32_t>(number % row_slots_); }
  uint32_t row_slots() const { return row_slots_; }
  bool index_only() const { return row_slots_ < size_; }
  bool has_row(uint64_t number) const { return stored(number) && head_ - number <= row_slots_; }

  // How many of `wanted` rows can be written at the head in one piece, so that no row is
  // overwritten that is held before its eviction.
  uint64_t piece(uint64_t wanted) const {
    return std::min({wanted, static_cast<uint64_t>(size_ - head_slot_), size_ - capacity_,
                     capacity_, static_cast<uint64_t>(row_slots_ - row_slot(head_))});
  }
  // Rows that stop being held when `rows` more come: [oldest(), oldest_after(rows)).
  uint64_t oldest_after(uint64_t rows) const {
    return std::max(forgotten_, head_ + rows > capacity_ ? head_ + rows - capacity_ : 0);
  }
  // No row is held any more; all have been evicted.
  void forget() { forgotten_ = head_; }
  // Stands where it did when it had come so far; its rows are to be written anew.
  void restore(uint64_t head, uint64_t oldest) {
    head_ = head;
    forgotten_ = oldest;
    head_slot_ = static_cast<uint32_t>(head % size_);
  }
  void advance(uint64_t rows) {
    head_ += rows;
    head_slot_ = static_cast<uint32_t>((head_slot_ + rows) % size_);
  }

 private:
  struct Layout;  // where everything lies in the memory
  static Layout layout_of(const TableSpec& spec, bool index_only);
  Ring(const TableSpec& spec, const Layout& layout);

  std::byte* record(uint32_t slot) const {
    return memory_.data() + (uint64_t{slot} << record_shift_);
  }
  // Once around, without a branch: where the head stands, random slots would foretell it wrongly.
  uint32_t turn_if(bool wraps) const { return size_ & (0 - uint32_t{wraps}); }
  uint32_t distance(uint32_t from, uint32_t to) const {
    return to > from ? to - from : to + size_ - from;
  }

  uint64_t capacity_;
  uint32_t size_;
  uint32_t row_slots_;
  uint32_t head_slot_ = 0;
  uint64_t head_ = 0;
  uint64_t forgotten_ = 0;  // rows below are not held, whatever the capacity
  uint32_t record_shift_;
  Mapping memory_;
  std::vector<RowColumn> columns_;
};

}  // namespace drlnet
