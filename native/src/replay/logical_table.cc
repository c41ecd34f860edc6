#include "replay/logical_table.h"

#include <algorithm>
#include <utility>

namespace drlnet {

using Want = Waiter::Want;

LogicalTable::LogicalTable(const LimiterSpec& limiter, uint32_t shards,
                           std::function<void(uint64_t)> wake)
    : wake_(std::move(wake)),
      limiter_(limiter),
      stocks_(shards),
      streams_(shards),
      restored_(shards) {}

Wait LogicalTable::admits(const Waiter& waiter) const {
  if (waiter.want == Want::draw) return limiter_.may_sample(waiter.count, waiter.least, stock_);
  const bool fits = !waiter.ring_full && limiter_.may_insert(room_ + waiter.count, stock_);
  return fits ? Wait::none : Wait::inserts_limit;
}

// What another shard's ring has no room for, and what is behind that, holds up no request here.
bool LogicalTable::is_first(std::span<const Place> ahead, const Waiter& waiter) {
  uint64_t full = 0;
  for (const Place& one : ahead) {
    if (one.want != waiter.want) continue;
    if (one.shard == waiter.shard) return false;
    if (one.ring_full) full |= uint64_t{1} << one.shard;
    if (((full >> one.shard) & 1) == 0) return false;
  }
  return true;
}

Wait LogicalTable::ask(const Waiter& waiter) {
  std::unique_lock lock(mutex_);
  const auto own = std::ranges::find_if(line_, [&](const Place& place) {
    return place.want == waiter.want && place.shard == waiter.shard &&
           place.session == waiter.session;
  });
  Wait wait = admits(waiter);
  if (wait == Wait::none && !is_first({line_.begin(), own}, waiter)) {
    wait = waiter.want == Want::draw ? Wait::samples_limit : Wait::inserts_limit;
  }
  if (wait != Wait::none) {
    Place place{waiter};
    if (looks_again(place)) place.ring_full = false;  // a draw came between
    if (own != line_.end()) {
      *own = place;
    } else if (waiter.session != 0) {
      line_.push_back(place);
    }
  } else {
    if (own != line_.end()) line_.erase(own);
    if (waiter.want == Want::draw) {
      limiter_.sampled(waiter.count);
    } else {
      room_ += waiter.count;
    }
  }
  wake_others(waiter.shard, lock);
  return wait;
}

void LogicalTable::changed(uint32_t shard, uint64_t room, uint64_t created, const Stock& stock) {
  std::unique_lock lock(mutex_);
  const Stock before = std::exchange(stocks_[shard], stock);
  if (room == 0 && stock == before) return;
  room_ -= room;
  limiter_.inserted(created);
  stock_.live_items += stock.live_items - before.live_items;
  stock_.draws_left += stock.draws_left - before.draws_left;
  for (Place& place : line_) place.ring_full &= place.shard != shard && !looks_again(place);
  wake_others(shard, lock);
}

void LogicalTable::pass_over(uint32_t shard, uint64_t draws) {
  std::unique_lock lock(mutex_);
  const bool held = std::ranges::any_of(line_, [&](const Place& place) {
    return place.want == Want::insert && !place.ring_full && admits(place) != Wait::none;
  });
  if (held) limiter_.sampled(draws);
  wake_others(shard, lock);
}

void LogicalTable::restore(uint32_t shard, uint64_t created, uint64_t drawn, const Stock& stock) {
  changed(shard, 0, 0, stock);
  const std::lock_guard lock(mutex_);
  const Restored before = std::exchange(restored_[shard], {created, drawn});
  limiter_.inserted(created - before.created);
  limiter_.sampled(drawn - before.drawn);
}

void LogicalTable::leave(uint32_t shard, uint32_t session) {
  std::unique_lock lock(mutex_);
  std::erase_if(
      line_, [&](const Place& place) { return place.shard == shard && place.session == session; });
  wake_others(shard, lock);
}

// Its shard may find room now: what moves there need not wait for a reader that has no batch.
bool LogicalTable::looks_again(const Place& place) const {
  return place.ring_full && place.with_batch && limiter_.short_of_batch(stock_);
}

LogicalTable::Place* LogicalTable::next(Want want) {
  for (Place& place : line_) {
    if (place.want != want || place.ring_full) continue;
    if (!is_first({line_.data(), &place}, place)) continue;
    return admits(place) == Wait::none ? &place : nullptr;  // the others are behind it
  }
  return nullptr;
}

std::optional<Waiter> LogicalTable::next(uint32_t shard) {
  const std::lock_guard lock(mutex_);
  // It has come to look: of later news it is to be told again, also where it finds nothing now.
  for (Place& place : line_) place.woken &= place.shard != shard;
  for (const Want want : {Want::draw, Want::insert}) {
    const Place* place = next(want);
    if (place != nullptr && place->shard == shard) return *place;
  }
  return std::nullopt;
}

std::vector<Waiter> LogicalTable::end(uint32_t shard) {
  std::unique_lock lock(mutex_);
  std::vector<Waiter> own;
  std::erase_if(line_, [&](const Place& place) {
    if (place.shard == shard) own.push_back(place);
    return place.shard == shard;
  });
  const bool news = !std::exchange(ended_, true);
  const uint64_t others = (~uint64_t{0} >> (kMaxShards - shards())) & ~(uint64_t{1} << shard);
  lock.unlock();
  if (news && others != 0 && wake_) wake_(others);
  return own;
}

bool LogicalTable::has_ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool LogicalTable::has_batch() {
  const std::lock_guard lock(mutex_);
  return !limiter_.short_of_batch(stock_);
}

// The shard that changed something asks next() by itself.
void LogicalTable::wake_others(uint32_t shard, std::unique_lock<std::mutex>& lock) {
  uint64_t awake = 0;
  for (const Want want : {Want::draw, Want::insert}) {
    Place* place = next(want);
    if (place == nullptr || place->shard == shard || std::exchange(place->woken, true)) continue;
    awake |= uint64_t{1} << place->shard;
  }
  lock.unlock();
  if (awake != 0) wake_(awake);
}

Tally LogicalTable::own() {
  const std::lock_guard lock(mutex_);
  Tally own{limiter_.items_created(), limiter_.items_drawn(), stock_, 0};
  for (const auto& [whose, theirs] : elsewhere_) {
    own.created -= theirs.created;
    own.drawn -= theirs.drawn;
    own.stock.live_items -= theirs.stock.live_items;
    own.stock.draws_left -= theirs.stock.draws_left;
  }
  for (const uint32_t streams : streams_) own.streams += streams;
  return own;
}

void LogicalTable::heard(uint32_t whose, const Tally& tally) {
  std::unique_lock lock(mutex_);
  const Tally before = std::exchange(elsewhere_[whose], tally);
  limiter_.inserted(tally.created - before.created);
  limiter_.sampled(tally.drawn - before.drawn);
  stock_.live_items += tally.stock.live_items - before.stock.live_items;
  stock_.draws_left += tally.stock.draws_left - before.stock.draws_left;
  for (Place& place : line_) place.ring_full &= !looks_again(place);
  wake_others(shards(), lock);  // this is none of them
}

void LogicalTable::set_streams(uint32_t shard, uint32_t count) {
  const std::lock_guard lock(mutex_);
  streams_[shard] = count;
}

uint32_t LogicalTable::streams(uint32_t shard) {
  const std::lock_guard lock(mutex_);
  return streams_[shard];
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
