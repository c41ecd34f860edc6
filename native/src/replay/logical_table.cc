#include "replay/logical_table.h"

#include <algorithm>
#include <utility>

namespace drlnet {

LogicalTable::LogicalTable(const LimiterSpec& limiter, uint32_t shards,
                           std::function<void(uint64_t)> wake)
    : wake_(std::move(wake)), limiter_(limiter), live_items_(shards), streams_(shards) {
  line_.reserve(shards);
}

// They are forgotten here: each one that has to wait on says so again. The shard that asks tries
// its own again by itself, since it has run a request.
uint64_t LogicalTable::others_waiting(uint32_t shard) {
  const uint64_t others = waiting_ & ~(uint64_t{1} << shard);
  waiting_ &= ~others;
  return others;
}

bool LogicalTable::take_room(uint32_t shard, uint64_t items) {
  uint64_t awake = 0;
  {
    const std::lock_guard lock(mutex_);
    const bool first = line_.empty() || line_.front() == shard;
    if (!first || !limiter_.may_insert(room_ + items, all_live_items_)) {
      if (std::ranges::find(line_, shard) == line_.end()) line_.push_back(shard);
      waiting_ |= uint64_t{1} << shard;
      return false;
    }
    room_ += items;
    if (!line_.empty()) {
      line_.erase(line_.begin());
      awake = others_waiting(shard);
    }
  }
  if (awake != 0) wake_(awake);
  return true;
}

void LogicalTable::appended(uint32_t shard, uint64_t room, uint64_t created, uint64_t live_items) {
  uint64_t awake = 0;
  {
    const std::lock_guard lock(mutex_);
    if (room == 0 && live_items == live_items_[shard]) return;
    room_ -= room;
    limiter_.inserted(created);
    all_live_items_ += live_items - std::exchange(live_items_[shard], live_items);
    awake = others_waiting(shard);
  }
  if (awake != 0) wake_(awake);
}

void LogicalTable::leave_line(uint32_t shard) {
  uint64_t awake = 0;
  {
    const std::lock_guard lock(mutex_);
    if (std::erase(line_, shard) != 0) awake = others_waiting(shard);
  }
  if (awake != 0) wake_(awake);
}

Wait LogicalTable::take_draws(uint32_t shard, uint64_t batch) {
  uint64_t awake = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const Wait wait = limiter_.may_sample(batch, all_live_items_); wait != Wait::none) {
      waiting_ |= uint64_t{1} << shard;
      return wait;
    }
    limiter_.sampled(batch);
    if (batch != 0) awake = others_waiting(shard);
  }
  if (awake != 0) wake_(awake);
  return Wait::none;
}

void LogicalTable::set_streams(uint32_t shard, uint32_t count) {
  const std::lock_guard lock(mutex_);
  streams_[shard] = count;
}

uint32_t LogicalTable::emptiest() {
  const std::lock_guard lock(mutex_);
  const auto shards = static_cast<uint32_t>(streams_.size());
  uint32_t best = turn_++ % shards;
  for (uint32_t i = 1, shard = best; i < shards; ++i) {
    shard = (shard + 1) % shards;
    if (streams_[shard] < streams_[best]) best = shard;
  }
  return best;
}

}  // namespace drlnet
