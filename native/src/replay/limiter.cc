#include "replay/limiter.h"

namespace drlnet {

double Limiter::balance(uint64_t inserts, uint64_t draws) const {
  return spec_.samples_per_insert *
             (static_cast<double>(created_ + inserts) - static_cast<double>(spec_.min_size)) -
         static_cast<double>(drawn_ + draws);
}

bool Limiter::may_insert(uint64_t items, const Stock& stock) const {
  if (spec_.samples_per_insert == 0 || items == 0 || stock.live_items < spec_.min_size) return true;
  return balance(items, 0) <= spec_.error_buffer;
}

Wait Limiter::may_sample(uint64_t batch, uint64_t least, const Stock& stock) const {
  const bool queue = spec_.max_times_sampled > 0;
  const bool few = stock.live_items == 0 || stock.live_items < spec_.min_size;
  // A batch's first part may leave fewer than min_size in a queue to the others.
  if (queue ? stock.draws_left < least || (few && drawn_ == 0) : few) {
    return few ? Wait::min_size : Wait::samples_limit;
  }
  if (spec_.samples_per_insert == 0) return Wait::none;
  return balance(0, batch) >= -spec_.error_buffer ? Wait::none : Wait::samples_limit;
}

}  // namespace drlnet
