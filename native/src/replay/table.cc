#include "replay/table.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace drlnet {
namespace {

TableSpec checked(TableSpec spec) {
  check(spec);
  return spec;
}

}  // namespace

Table::Table(TableSpec spec, uint8_t shard, uint16_t epoch, std::shared_ptr<LogicalTable> logical,
             bool index_only)
    : spec_(checked(std::move(spec))),
      reach_(spec_.item),
      key_base_(uint64_t{shard} << kKeyShardShift | uint64_t{epoch} << kKeyNumberBits),
      ring_(spec_, index_only),
      gather_(spec_, ring_, key_base_),
      row_layout_(spec_),
      streams_(static_cast<uint32_t>(spec_.capacity / (2 * uint64_t{spec_.item.window()})),
               [this](Stream& stream) { complete_items(stream, 0, true); }),
      logical_(logical ? std::move(logical)
                       : std::make_shared<LogicalTable>(spec_.limiter, shard + 1u)),
      sampler_(make_sampler(spec_.sampler, ring_.size())),
      drawable_(ring_.size()),
      random_(spec_.seed) {
  // What draw() or, where items are one row, gather() reads of each slot.
  const RowColumn& column = ring_.column(layout().windows().front().column);
  if (reach_.rows() == 1 && !index_only) {
    sampler_->fetch_along(column.at(0), column.stride);
  } else {
    sampler_->fetch_along(reinterpret_cast<const std::byte*>(&ring_.row(0)), ring_.record_bytes());
  }
}

uint64_t Table::memory_bytes(const TableSpec& spec, bool index_only) {
  constexpr uint64_t kSamplerBytesPerSlot = 17;  // no sampler of ours takes more when it is large
  return Ring::memory_bytes(spec, index_only) + kSamplerBytesPerSlot * ring_slots(spec);
}

Status Table::update_priorities(std::span<const uint64_t> keys, std::span<const float> priorities,
                                uint64_t& applied, uint64_t& stale) {
  applied = stale = 0;
  if (keys.size() != priorities.size()) return Status::bad_request;
  const std::optional<float> greatest = greatest_priority(priorities);
  if (!greatest) return Status::bad_priority;
  // So large that one turn does for the usual batch: what a sampler does above its leaves, it does
  // once per turn.
  std::array<uint32_t, 1024> slots;
  std::array<float, 1024> live;
  float maximum = maximum_priority_;
  for (size_t begin = 0; begin < keys.size(); begin += slots.size()) {
    const size_t count = std::min(keys.size() - begin, slots.size());
    const auto some_keys = keys.subspan(begin, count);
    auto some = priorities.subspan(begin, count);
    const bool all = ring_.slots_of(some_keys, key_base_ + ring_.head(), slots) &&
                     drawable_.test_all({slots.data(), count});
    if (!all) some = {live.data(), pick_live(some_keys, some, slots, live)};
    maximum = std::max(maximum, all && count == keys.size() ? *greatest : *greatest_priority(some));
    sampler_->update({slots.data(), some.size()}, some);
    if (changes_) changes_->add({slots.data(), some.size()});
    if (unsaved_) unsaved_->mark({slots.data(), some.size()}, some);
    applied += some.size();
    stale += count - some.size();
  }
  maximum_priority_ = maximum;
  applied_updates_ += applied;
  stale_updates_ += stale;
  retire_useless();
  return Status::ok;
}

// But for what a draw needs: it would wait for items to come.
void Table::retire_useless() {
  const std::span<const uint32_t> useless = sampler_->take_useless();
  if (useless.empty()) return;
  const uint64_t needed = std::max<uint64_t>(spec_.limiter.min_size, 1);
  for (const uint32_t slot : useless) {
    if (live_items() <= needed) break;
    retire(slot);
    if (changes_) changes_->add({&slot, 1});
  }
  count_stock(0);
}

// Finds the live items: their slots and priorities, and how many they are.
size_t Table::pick_live(std::span<const uint64_t> keys, std::span<const float> priorities,
                        std::span<uint32_t> slots, std::span<float> live) const {
  size_t n = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t number = keys[i] - key_base_;  // of a foreign key: beyond the head
    const bool here = ring_.stored(number);
    slots[n] = here ? ring_.place(number).slot : 0;
    live[n] = priorities[i];
    // An entry is kept by moving on behind it, not by a branch that would often be foretold
    // wrongly.
    const bool drawable = here & drawable_.test(slots[n]);
    n += drawable;
  }
  return n;
}

SampleHeader Table::header_of(uint32_t batch) const {
  return {.batch = batch,
          .reserved = 0,
          .item_count = live_items(),
          .head = ring_.head(),
          .env_steps = env_steps_,
          .items_created = items_created_,
          .items_drawn = items_drawn_,
          .priority_mass = sampler_->mass(),
          .draws_left = draws_left_};
}

void Table::count_stock(uint64_t created) {
  items_created_ += created;
  logical_->changed(shard(), std::exchange(room_, 0), created, {live_items(), draws_left_});
}

// Where draws are to begin at that key: nowhere in particular, or among those leaves. False: no
// item is there.
bool Table::find_among(uint64_t from, std::optional<Among>& among) const {
  const uint64_t oldest = from - key_base_;  // of a foreign key: beyond the head
  if (from == 0 || oldest <= ring_.oldest() || oldest > ring_.head()) return true;
  if (oldest == ring_.head()) return false;
  const uint32_t first = ring_.place(oldest).slot;
  const auto mass = sampler_->mass_among(first, ring_.head_slot());
  if (mass && !(*mass > 0)) return false;
  if (mass) among = Among{first, *mass};
  return true;
}

bool Table::draw_references(uint32_t batch, uint64_t from, DrawnBatch& drawn) {
  std::optional<Among> among;
  if (batch > 0 && !find_among(from, among)) return false;
  drawn.slots.clear();
  draw(batch, drawn, true, among);
  for (uint32_t& slot : drawn.slots) slot = ring_.age_at(slot);
  return true;
}

void Table::draw(uint32_t batch, DrawnBatch& drawn, bool whole, std::optional<Among> among) {
  items_drawn_ += batch;
  drawn.header = header_of(batch);
  drawn.keys.resize(batch);
  drawn.probabilities.resize(batch);
  drawn.lengths.assign(batch, 0);
  if (batch == 0) return;
  const std::span<uint32_t> slots = gather_.begin(drawn, whole);
  if (is_queue()) {
    draw_from_queue(slots, drawn.probabilities);
    drawn.header.draws_left = draws_left_;
  } else if (among) {
    sampler_->draw_among(among->first, among->mass, slots, drawn.probabilities, random_);
  } else {
    sampler_->draw(slots, drawn.probabilities, random_);
  }
  const uint64_t next_key = key_base_ + ring_.head();
  uint32_t oldest = 0;
  for (size_t i = 0; i < batch; ++i) {
    const uint32_t age = ring_.age_at(slots[i]);
    oldest = std::max(oldest, age);
    drawn.keys[i] = next_key - age;
  }
  drawn.oldest = ring_.head() - oldest;
  gather_.trace(drawn);
  seen_ = {skew_of(drawn), drawn.keys[0] - key_base_};
}

// One after another: an item that has been drawn as often as it may be is not drawn again.
void Table::draw_from_queue(std::span<uint32_t> slots, std::span<float> probabilities) {
  for (size_t i = 0; i < slots.size(); ++i) {
    sampler_->draw(slots.subspan(i, 1), probabilities.subspan(i, 1), random_);
    Row& row = ring_.row(slots[i]);
    --draws_left_;
    if (unsaved_) unsaved_->mark(slots[i]);
    if (++row.draws < spec_.limiter.max_times_sampled) continue;
    retire(slots[i]);
    if (changes_) changes_->add(slots.subspan(i, 1));
  }
  count_stock(0);
}

// How skewed a batch's probabilities are. Of some of its items: any run of them stands for all, and
// the mean over many batches is as good.
double Table::skew_of(const DrawnBatch& drawn) {
  constexpr size_t kLook = 8;
  const size_t n = std::min(drawn.keys.size(), kLook);
  float sum = 0;
  for (size_t i = 0; i < n; ++i) sum += drawn.probabilities[i];
  return static_cast<double>(sum) / static_cast<double>(n) *
         static_cast<double>(drawn.header.item_count);
}

bool Table::work_ahead(uint64_t now) {
  if (const auto seen = std::exchange(seen_, std::nullopt)) {
    skew_.add(seen->skew);
    freshness_.drawn(seen->number, ring_.head(), now);
  }
  return sampler_->work_ahead(random_);
}

void Table::read_metrics(const std::string& prefix, Metrics& metrics, uint64_t now) const {
  const auto count = [&](const char* name, uint64_t value) { metrics.set(prefix + name, value); };
  const auto figure = [&](const char* name, double value) { metrics.set(prefix + name, value); };
  count("rows", rows());
  count("capacity", spec_.capacity);
  figure("fill", static_cast<double>(rows()) / static_cast<double>(spec_.capacity));
  count("ring_bytes", ring_.bytes());
  if (index_only()) count("saved_bytes", Ring::memory_bytes(spec_) - ring_.bytes());
  count("env_steps", env_steps_);
  count("rows_ignored", rows_ignored_);
  count("rows_moved", rows_moved_);
  count("streams_leased", streams_.leased_count());
  count("streams_orphaned", streams_.orphaned_count());
  count("live_items", live_items());
  count("pending_items", pending_items_);
  count("items_created", items_created_);
  count("items_drawn", items_drawn_);
  count("items_ignored", items_ignored_);
  count("items_refused", items_refused_);
  count("items_retired", items_retired_);
  figure("samples_per_insert", items_created_ == 0 ? 0
                                                   : static_cast<double>(items_drawn_) /
                                                         static_cast<double>(items_created_));
  waits_.read_counts(prefix, metrics);
  waits_.read_times(prefix, metrics, now);
  metrics.set(prefix + "sampled_age", freshness_.ages());
  figure("sampled_versions_behind", freshness_.versions_behind());
  // Kish (1965): 1 / sum of the squared shares, the sum being the mean share of what is drawn. Over
  // the number of items, so that the mean holds while the table grows.
  figure("effective_items",
         skew_.value() > 0 ? static_cast<double>(live_items()) / skew_.value() : 0);
  figure("priority_mass", sampler_->mass());
  figure("priority_maximum", static_cast<double>(maximum_priority_));
  count("applied_updates", applied_updates_);
  count("stale_updates", stale_updates_);
}

}  // namespace drlnet
