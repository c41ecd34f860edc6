#include "client/sharded_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/streaming_copy.h"
#include "base/world.h"
#include "client/mirror.h"
#include "wire/codec.h"

namespace drlnet {
namespace {

// Where the first `count` rows of a part go.
void place_rows(SplitSample::Part& part, uint32_t count, const BatchLayout& batch,
                std::span<std::byte> memory) {
  part.places.reply_bytes = batch.reply().total_bytes(count);
  part.places.runs.clear();
  part.places.runs.push_back({0, std::as_writable_bytes(std::span(&part.header, 1))});
  if (count > 0) batch.add_part(memory, part.rows.first, count, part.places);
}

// The shard knows what it draws with; the batch is drawn from all of them.
void scale_probabilities(const SplitSample::Part& part, uint32_t count, const BatchLayout& batch,
                         std::span<std::byte> memory) {
  std::byte* at = memory.data() + batch.reply().probabilities(batch.count());
  at += part.rows.first * sizeof(float);
  for (uint32_t i = 0; i < count; ++i, at += sizeof(float)) {
    float probability;
    std::memcpy(&probability, at, sizeof probability);
    probability = static_cast<float>(probability * part.share);
    std::memcpy(at, &probability, sizeof probability);
  }
}

}  // namespace

ShardedTable::ShardedTable(std::vector<Client*> shards, const TableSpec& spec,
                           std::shared_ptr<const LostShards> lost)
    : shards_(std::move(shards)),
      lost_(std::move(lost)),
      queue_(spec.limiter.max_times_sampled > 0),
      random_(random_secret()),
      masses_(shards_.size()) {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    numbers_.push_back(0);
    if (this->lost(shard)) continue;
    OpenTableReply opened{};
    try {
      opened = shards_[shard]->open(spec);
    } catch (const ShardLost&) {
      continue;
    }
    numbers_.back() = opened.table;
    if (shard == 0) first_shard_ = opened.shard % static_cast<uint32_t>(shards_.size());
  }
}

ShardedTable::~ShardedTable() {
  for (LateSample& late : late_) abandon(late.split);
}

void ShardedTable::keep_moving(const BatchLayout& batch) {
  const size_t bytes = mirror_ ? mirror_->reference_bytes(batch.count()) : batch.memory_bytes();
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    if (!lost(shard)) shards_[shard]->keep_moving(bytes);
  }
}

void ShardedTable::divide(SplitSample& split) {
  const std::optional<uint32_t> only = mirror_ ? mirror_->only() : std::nullopt;
  if (only || shards_.size() == 1) {
    for (const auto rows : std::exchange(split.gaps, {})) {
      for (size_t shard = 0; shard < shards_.size(); ++shard) {  // the others say how they stand
        const bool draws = shard == only.value_or(0);
        split.parts.push_back({.shard = shard,
                               .rows = {rows.first, draws ? rows.count : 0},
                               .share = only ? 1.0 / mirror_->world() : 1.0});
      }
    }
    return;
  }
  const std::lock_guard lock(mutex_);
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    if (lost(shard)) masses_[shard] = 0;
  }
  double all = 0;
  for (const double mass : masses_) all += mass;
  for (const auto [begin, count] : std::exchange(split.gaps, {})) {
    // Where too little is known, they are only asked how they stand.
    const bool known = queue_ ? all >= count : all > 0;
    if (!known) split.gaps.push_back({begin, count});
    const double u = random_.uniform();
    double below = 0;
    uint32_t first = 0;
    for (size_t shard = 0; shard < shards_.size(); ++shard) {
      below += masses_[shard];  // of the last one: `all`, to the bit
      const double end = known ? std::ceil(count * (below / all) - u) : 0;
      if (lost(shard)) continue;
      const auto last = static_cast<uint32_t>(std::clamp<double>(end, first, count));
      split.parts.push_back({.shard = shard,
                             .rows = {begin + first, last - first},
                             .least = known ? 0 : count,
                             .share = known ? masses_[shard] / all : 0});
      first = last;
    }
  }
}

void ShardedTable::place(SplitSample::Part& part, const BatchLayout& batch,
                         std::span<std::byte> memory) const {
  if (mirror_ == nullptr) return place_rows(part, part.rows.count, batch, memory);
  part.references.resize(mirror_->reference_bytes(part.rows.count));
  part.places.reply_bytes = part.references.size();
  part.places.runs.assign(1, {0, std::span(part.references)});
}

SplitSample ShardedTable::begin(const BatchLayout& batch, std::span<std::byte> memory) const {
  const uint32_t n = batch.count();
  if (n == 0 || n > kMaxBatch || memory.size() != bytes(batch)) {
    throw Error(Status::config,
                "a batch of " + std::to_string(n) + " items into a buffer of " +
                    std::to_string(memory.size()) + " bytes",
                "ask for 1 to 65,536 items, into a buffer of the layout's total bytes");
  }
  return {.gaps = {{0, n}}, .parts = {}, .headers = std::vector<SampleHeader>(shards_.size())};
}

void ShardedTable::ask(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
                       Deadline deadline) {
  divide(split);
  try {
    for (SplitSample::Part& part : split.parts) {
      place(part, batch, memory);
      const uint64_t from =
          mirror_ && part.rows.count > 0 ? mirror_->from(part.shard, deadline) : 0;
      const SampleRequest request{numbers_[part.shard], part.rows.count, part.least,
                                  (mirror_ ? kReferences : 0) | (from != 0 ? kFrom : 0)};
      part.call = shards_[part.shard]->start(
          Operation::sample, deadline,
          [&](auto& body) {
            ByteWriter writer(body);
            writer.put(request);
            if (from != 0) writer.put(from);
          },
          part.places);
    }
  } catch (...) {
    abandon(split);
    throw;
  }
}

void ShardedTable::gather(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
                          Deadline deadline) {
  if (split.parts.empty()) ask(split, batch, memory, deadline);
  try {
    for (const SplitSample::Part& part : split.parts) {
      if (part.call) shards_[part.shard]->wait(*part.call, deadline);
    }
  } catch (const Error& error) {  // of a round that had no time to ask again
    if (split.nothing_here && error.status() == Status::timeout) mirror_->throw_empty();
    throw;
  }
}

bool ShardedTable::take(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
                        Deadline deadline) {
  Status outcome = Status::ok;
  std::vector<std::byte> refusal;
  std::optional<size_t> none_at;  // a shard that had nothing to give
  bool some = false;
  for (SplitSample::Part& part : split.parts) {
    some |= part.come && part.rows.count > 0;
    if (!part.call) continue;  // collected, before its rows were waited for
    const CallId call = *part.call;
    part.call.reset();  // collect() lets it go, whatever comes
    SampleHeader& header = split.headers[part.shard];
    try {
      shards_[part.shard]->collect(call, deadline, [&](Status status, auto reply) {
        if (status != Status::ok) {
          // Asked again how it stands, before it is to give any.
          header.draws_left = 0;
          header.priority_mass = 0;
          if (status == Status::sample_expired) {
            none_at = part.shard;
            return;
          }
          outcome = status;
          refusal.assign(reply.begin(), reply.end());
          return;
        }
        if (!reply.empty()) {
          // It came while no memory was there for it.
          Destination(part.places).write(0, reply);
          streaming_fence();
        }
        if (mirror_ != nullptr) {
          std::memcpy(&header, part.references.data(), sizeof header);
          part.come = true;
          some |= part.rows.count > 0;
          return;
        }
        header = part.header;
        scale_probabilities(part, part.rows.count, batch, memory);
        part.rows = {};
      });
    } catch (...) {
      abandon(split);
      throw;
    }
  }
  if (mirror_ != nullptr) gather_here(split, batch, memory, deadline);
  abandon(split);  // nothing but the rows that have not come
  {
    const std::lock_guard lock(mutex_);
    for (size_t s = 0; s < shards_.size(); ++s) {
      const SampleHeader& header = split.headers[s];
      masses_[s] = queue_ ? static_cast<double>(header.draws_left) : header.priority_mass;
    }
  }
  throw_if_refused(outcome, refusal);
  if (split.gaps.empty()) {
    sum_up(split, batch, memory);
    return true;
  }
  if (mirror_ == nullptr) return false;
  split.nothing_here = none_at && !some;  // nor will there be at once
  if (split.nothing_here) mirror_->wait_for_news(*none_at, deadline);
  if (waking_ns() >= deadline && (split.nothing_here || mirror_->only())) mirror_->throw_empty();
  return false;
}

bool ShardedTable::taken(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
                         Deadline deadline) {
  if (split.parts.empty()) return false;  // begun anew
  try {
    return take(split, batch, memory, deadline);
  } catch (const ShardLost&) {
    begin_anew(split, batch, memory);
    return false;
  }
}

void ShardedTable::begin_anew(SplitSample& split, const BatchLayout& batch,
                              std::span<std::byte> memory) {
  abandon(split);
  split = begin(batch, memory);
}

// A timeout leaves what has come: the next call goes on waiting for its rows.
void ShardedTable::gather_here(SplitSample& split, const BatchLayout& batch,
                               std::span<std::byte> memory, Deadline deadline) {
  for (SplitSample::Part& part : split.parts) {
    if (!part.come) continue;
    uint32_t count = 0;
    if (part.rows.count > 0) {
      const auto shard = static_cast<uint32_t>(part.shard);
      count = mirror_->gather(
          shard, part.references,
          [&](uint32_t left) -> const Places& {
            place_rows(part, left, batch, memory);
            return part.places;
          },
          deadline);
      scale_probabilities(part, count, batch, memory);
    }
    part.come = false;
    part.rows = {part.rows.first + count, part.rows.count - count};
  }
}

void ShardedTable::sum_up(const SplitSample& split, const BatchLayout& batch,
                          std::span<std::byte> memory) {
  SampleHeader sum{};
  sum.batch = batch.count();
  std::byte* head = memory.data() + batch.memory_bytes();
  for (const SampleHeader& header : split.headers) {
    sum.item_count += header.item_count;
    sum.env_steps += header.env_steps;
    sum.items_created += header.items_created;
    sum.items_drawn += header.items_drawn;
    sum.priority_mass += header.priority_mass;
    sum.draws_left += header.draws_left;
    if (split.headers.size() == 1) continue;
    std::memcpy(head, &header.head, sizeof header.head);
    head += sizeof header.head;
  }
  if (split.headers.size() == 1) sum.head = split.headers[0].head;
  std::memcpy(memory.data(), &sum, sizeof sum);
}

void ShardedTable::abandon(SplitSample& split) {
  for (const SplitSample::Part& part : split.parts) {
    if (part.call) shards_[part.shard]->abandon(*part.call);
    if (part.rows.count > 0) split.gaps.push_back(part.rows);
  }
  split.parts.clear();
}

void ShardedTable::sample(const BatchLayout& batch, std::span<std::byte> memory,
                          Deadline deadline) {
  // A thread that waits for one shard must not keep the others' answers waiting.
  keep_moving(batch);
  SplitSample split = begin(batch, memory);
  if (auto late = take_late(batch.count())) {
    split = std::move(late->split);
    for (SplitSample::Part& part : split.parts) {
      if (part.call) place(part, batch, memory);
    }
    if (!late->memory.empty()) std::memcpy(memory.data(), late->memory.data(), memory.size());
  }
  do {
    try {
      gather(split, batch, memory, deadline);
    } catch (const ShardLost&) {
      begin_anew(split, batch, memory);
    } catch (...) {
      keep_late(std::move(split), batch.count(), memory);
      throw;
    }
  } while (!taken(split, batch, memory, deadline));
}

void ShardedTable::keep_late(SplitSample split, uint32_t batch, std::span<std::byte> memory) {
  constexpr size_t kMost = 8;  // kinds of samples that a caller may still come back for
  uint32_t missing = 0;
  for (const SplitSample::Rows& gap : split.gaps) missing += gap.count;
  for (const SplitSample::Part& part : split.parts) {
    missing += part.rows.count;
    if (part.call) shards_[part.shard]->detach(*part.call);
  }
  LateSample late{batch, std::move(split), {}};
  if (missing < batch) late.memory.assign(memory.begin(), memory.end());
  const std::lock_guard lock(mutex_);
  late_.push_back(std::move(late));
  if (late_.size() <= kMost) return;
  abandon(late_.front().split);
  late_.pop_front();
}

std::optional<ShardedTable::LateSample> ShardedTable::take_late(uint32_t batch) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(late_, [&](const LateSample& sample) { return sample.batch == batch; });
  if (found == late_.end()) return std::nullopt;
  LateSample late = std::move(*found);
  late_.erase(found);
  return late;
}

// A key that names no shard of ours is the first one's to call stale.
template <typename Send>
void ShardedTable::send_by_shard(std::span<const uint64_t> keys, std::span<const float> priorities,
                                 Send send) {
  check_update(keys, priorities);
  std::vector<uint64_t> part_keys;
  std::vector<float> part_priorities;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    part_keys.clear();
    part_priorities.clear();
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint64_t named = keys[i] >> kKeyShardShift;
      if ((named < shards_.size() ? named : 0) != shard) continue;
      part_keys.push_back(keys[i]);
      part_priorities.push_back(priorities[i]);
    }
    if (part_keys.empty() || lost(shard)) continue;
    try {
      send(shard, part_keys, part_priorities);
    } catch (const ShardLost&) {  // as if they had come late: the items are gone
    }
  }
}

UpdateResult ShardedTable::update_priorities(std::span<const uint64_t> keys,
                                             std::span<const float> priorities) {
  UpdateResult sum{};
  send_by_shard(keys, priorities, [&](size_t shard, const auto& names, const auto& values) {
    const auto result = shards_[shard]->update_priorities(numbers_[shard], names, values);
    sum.applied += result.applied;
  });
  sum.stale = keys.size() - sum.applied;  // a lost shard's, too
  return sum;
}

void ShardedTable::update_priorities_async(std::span<const uint64_t> keys,
                                           std::span<const float> priorities) {
  send_by_shard(keys, priorities, [&](size_t shard, const auto& names, const auto& values) {
    shards_[shard]->update_priorities_async(numbers_[shard], names, values);
  });
}

}  // namespace drlnet
