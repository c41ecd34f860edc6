#include "replay/limiter.h"

namespace drlnet {

double Limiter::balance(uint64_t inserts, uint64_t draws) const {
  return spec_.samples_per_insert *
             (static_cast<double>(created_ + inserts) - static_cast<double>(spec_.min_size)) -
         static_cast<double>(drawn_ + draws);
}

bool Limiter::may_insert(uint64_t items, uint64_t live_items) const {
  if (spec_.samples_per_insert == 0 || items == 0 || live_items < spec_.min_size) return true;
  return balance(items, 0) <= spec_.error_buffer;
}

Wait Limiter::may_sample(uint64_t batch, uint64_t live_items) const {
  if (live_items == 0 || live_items < spec_.min_size) return Wait::min_size;
  if (spec_.samples_per_insert == 0) return Wait::none;
  return balance(0, batch) >= -spec_.error_buffer ? Wait::none : Wait::samples_limit;
}

}  // namespace drlnet
