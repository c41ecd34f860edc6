// The table's invariants, recomputed from scratch: for tests.
#include <algorithm>

#include "replay/table.h"

namespace drlnet {

bool Table::consistent() const {
  uint64_t live = 0, pending = 0, left = 0;
  for (uint64_t number = ring_.head() - std::min<uint64_t>(ring_.head(), ring_.size());
       number < ring_.head(); ++number) {
    const RowPlace place = ring_.place(number);
    const Row& row = ring_.row(place.slot);
    if (ring_.number_at(place.slot) != number) return false;
    const bool waits = row.state == ItemState::pending, drawable = row.state == ItemState::live;
    const bool drawn = drawable_.test(place.slot);
    if (drawn && !drawable) return false;
    if (!drawn && drawable && columns_from_ == 0) return false;
    live += drawn;
    pending += waits;
    if (!waits && !drawable) continue;
    if (number < ring_.oldest() || (reach_.stops && (row.flags & kLast) != 0)) return false;
    if (period_step(row) % spec_.item.period != 0) return false;
    left += drawable && is_queue() ? spec_.limiter.max_times_sampled - row.draws : 0;

    RowPlace at = place;
    for (uint64_t i = rows_before(reach_, row); i > 0; --i) {  // all that it looks back to is held
      const Row& later = ring_.row(at.slot);
      if (!ring_.step_back(at) || at.number < ring_.oldest()) return false;
      const Row& earlier = ring_.row(at.slot);
      if (earlier.ordinal != later.ordinal || earlier.step + 1 != later.step) return false;
      if (reach_.stops && earlier.since_first + 1 != later.since_first) return false;
    }
    at = place;
    uint32_t ahead = 0;
    bool ended = false;
    while (ahead < reach_.horizon && !ended && ring_.step_on(at)) {
      const Row& next = ring_.row(at.slot);
      if (next.ordinal != row.ordinal || next.step != row.step + ahead + 1) return false;
      if (reach_.stops && (next.flags & kFirst) != 0)
        return false;  // a broken episode: must be retired
      ended = reach_.stops && (next.flags & kLast) != 0;
      ++ahead;
    }
    const bool complete = ahead == reach_.horizon || ended;
    if (complete != drawable || (drawable && row.length != ahead)) return false;
  }
  if (live != sampler_->size() || pending != pending_items_ || left != draws_left_) return false;
  return (sampler_->mass() > 0) == (live > 0);
}

}  // namespace drlnet
