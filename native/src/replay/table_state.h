// What a table is made of besides its rows: what a server keeps on disk and makes it of again. The
// records lie on disk as they are.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/ring.h"

namespace drlnet {

struct SavedItem {
  uint32_t slot;
  float priority;  // as it was given: a sampler stores a power of it
  uint16_t draws;
  ItemState state;
  uint8_t reserved;
};
static_assert(sizeof(SavedItem) == 12);

struct SavedStream {
  uint64_t token, next_step, first_number, last_number;
  uint32_t epoch, since_first;
  uint32_t leased, open;
};
static_assert(sizeof(SavedStream) == 48);

struct TableCounters {
  uint64_t head = 0;    // the number of the row that comes next
  uint64_t oldest = 0;  // of the oldest row that is held
  uint64_t slots = 0;   // of the ring
  uint64_t items_created = 0, items_drawn = 0, env_steps = 0;
  uint64_t items_ignored = 0, items_refused = 0, items_retired = 0, rows_ignored = 0;
  uint64_t applied_updates = 0, stale_updates = 0;
  uint64_t random[4] = {};
  float maximum_priority = 1;
  uint32_t reserved = 0;
};
static_assert(sizeof(TableCounters) == 136);

struct TableState {
  TableCounters counters;
  std::vector<SavedStream> streams;  // by ordinal
  // Those that changed since the last one, or all: in no order, or by their rows' numbers.
  std::vector<SavedItem> items;
};

// A row's own part of the metadata; its links are found anew.
struct SavedRow {
  uint64_t step;
  uint32_t ordinal, since_first;
  uint64_t flags;
};
static_assert(sizeof(SavedRow) == 24);

}  // namespace drlnet
