#include "client/sharded_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "base/streaming_copy.h"
#include "base/world.h"
#include "wire/codec.h"

namespace drlnet {
namespace {

void place(SplitSample::Part& part, const BatchLayout& batch, std::span<std::byte> memory) {
  part.places.reply_bytes = batch.reply().total_bytes(part.rows);
  part.places.runs.clear();
  part.places.runs.push_back({0, std::as_writable_bytes(std::span(&part.header, 1))});
  if (part.rows > 0) batch.add_part(memory, part.first, part.rows, part.places);
}

}  // namespace

ShardedTable::ShardedTable(std::vector<Client*> shards, const TableSpec& spec)
    : shards_(std::move(shards)), random_(random_secret()), masses_(shards_.size()) {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    const OpenTableReply opened = shards_[shard]->open(spec);
    numbers_.push_back(opened.table);
    if (shard == 0) first_shard_ = opened.shard % static_cast<uint32_t>(shards_.size());
  }
}

ShardedTable::~ShardedTable() {
  for (LateSample& late : late_) abandon(late.split);
}

void ShardedTable::keep_moving(const BatchLayout& batch) {
  for (Client* shard : shards_) shard->keep_moving(batch.memory_bytes());
}

void ShardedTable::divide(SplitSample& split, uint32_t batch) {
  split.parts.resize(shards_.size());
  const std::lock_guard lock(mutex_);
  double all = 0;
  for (const double mass : masses_) all += mass;
  const double u = random_.uniform();
  double below = 0;
  uint32_t first = 0;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    SplitSample::Part& part = split.parts[shard];
    below += masses_[shard];  // of the last one: `all`, to the bit
    // Nothing is known yet: they are only asked how they stand.
    const double end = all > 0 ? std::ceil(batch * (below / all) - u) : 0;
    const auto last = static_cast<uint32_t>(std::clamp<double>(end, first, batch));
    part.share = all > 0 ? masses_[shard] / all : 0;
    part.first = first;
    part.rows = last - first;
    first = last;
  }
}

void ShardedTable::ask(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
                       Deadline deadline) {
  const uint32_t n = batch.count();
  if (n == 0 || n > kMaxBatch || memory.size() != bytes(batch)) {
    throw Error(Status::config,
                "a batch of " + std::to_string(n) + " items into a buffer of " +
                    std::to_string(memory.size()) + " bytes",
                "ask for 1 to 65,536 items, into a buffer of the layout's total bytes");
  }
  divide(split, n);
  try {
    for (size_t shard = 0; shard < shards_.size(); ++shard) {
      SplitSample::Part& part = split.parts[shard];
      place(part, batch, memory);
      part.call = shards_[shard]->start(
          Operation::sample, deadline,
          [&](auto& body) { ByteWriter(body).put(SampleRequest{numbers_[shard], part.rows}); },
          part.places);
    }
  } catch (...) {
    abandon(split);
    throw;
  }
}

void ShardedTable::wait(SplitSample& split, Deadline deadline) {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    shards_[shard]->wait(*split.parts[shard].call, deadline);
  }
}

bool ShardedTable::take(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
                        Deadline deadline) {
  Status outcome = Status::ok;
  std::vector<std::byte> refusal;
  uint32_t rows = 0;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    SplitSample::Part& part = split.parts[shard];
    const CallId call = *part.call;
    part.call.reset();  // collect() lets it go, whatever comes
    try {
      shards_[shard]->collect(call, deadline, [&](Status status, auto reply) {
        if (status != Status::ok) {
          if (outcome == Status::ok || outcome == Status::sample_expired) {
            outcome = status;
            refusal.assign(reply.begin(), reply.end());
          }
          part.header = {};  // asked again how it stands, before it is to give any
        } else if (!reply.empty()) {
          // It came while nobody's memory was there for it.
          Destination(part.places).write(0, reply);
          streaming_fence();
        }
      });
    } catch (...) {
      abandon(split);
      throw;
    }
    rows += part.rows;
  }
  {
    const std::lock_guard lock(mutex_);
    for (size_t s = 0; s < shards_.size(); ++s) masses_[s] = split.parts[s].header.priority_mass;
  }
  if (outcome != Status::sample_expired) throw_if_refused(outcome, refusal);
  if (outcome != Status::ok || rows == 0) return false;
  sum_up(split, batch, memory);
  return true;
}

void ShardedTable::sum_up(const SplitSample& split, const BatchLayout& batch,
                          std::span<std::byte> memory) const {
  SampleHeader sum{};
  sum.batch = batch.count();
  std::byte* const probabilities = memory.data() + batch.reply().probabilities(batch.count());
  std::byte* head = memory.data() + batch.memory_bytes();
  for (const SplitSample::Part& part : split.parts) {
    sum.item_count += part.header.item_count;
    sum.env_steps += part.header.env_steps;
    sum.items_created += part.header.items_created;
    sum.items_drawn += part.header.items_drawn;
    sum.priority_mass += part.header.priority_mass;
    std::memcpy(head, &part.header.head, sizeof part.header.head);
    head += sizeof part.header.head;
    for (uint32_t i = part.first; i < part.first + part.rows; ++i) {
      float probability;
      std::memcpy(&probability, probabilities + i * sizeof probability, sizeof probability);
      probability = static_cast<float>(probability * part.share);
      std::memcpy(probabilities + i * sizeof probability, &probability, sizeof probability);
    }
  }
  std::memcpy(memory.data(), &sum, sizeof sum);
}

void ShardedTable::abandon(SplitSample& split) {
  for (size_t shard = 0; shard < split.parts.size(); ++shard) {
    auto& call = split.parts[shard].call;
    if (call) shards_[shard]->abandon(*call);
    call.reset();
  }
}

void ShardedTable::sample(const BatchLayout& batch, std::span<std::byte> memory,
                          Deadline deadline) {
  // A thread that waits for one shard must not keep the others' answers waiting.
  keep_moving(batch);
  for (bool taken = false; !taken;) {
    SplitSample split;
    if (auto late = take_late(batch.count())) {
      split = std::move(*late);
      for (SplitSample::Part& part : split.parts) place(part, batch, memory);
    } else {
      ask(split, batch, memory, deadline);
    }
    try {
      wait(split, deadline);
    } catch (...) {
      keep_late(batch.count(), std::move(split));
      throw;
    }
    taken = take(split, batch, memory, deadline);
  }
}

void ShardedTable::keep_late(uint32_t batch, SplitSample split) {
  constexpr size_t kMost = 8;  // kinds of samples that somebody may still come back for
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    shards_[shard]->detach(*split.parts[shard].call);
  }
  const std::lock_guard lock(mutex_);
  late_.push_back({batch, std::move(split)});
  if (late_.size() <= kMost) return;
  abandon(late_.front().split);
  late_.pop_front();
}

std::optional<SplitSample> ShardedTable::take_late(uint32_t batch) {
  const std::lock_guard lock(mutex_);
  const auto late =
      std::ranges::find_if(late_, [&](const LateSample& sample) { return sample.batch == batch; });
  if (late == late_.end()) return std::nullopt;
  SplitSample split = std::move(late->split);
  late_.erase(late);
  return split;
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
    if (!part_keys.empty()) send(shard, part_keys, part_priorities);
  }
}

UpdateResult ShardedTable::update_priorities(std::span<const uint64_t> keys,
                                             std::span<const float> priorities) {
  UpdateResult sum{};
  send_by_shard(keys, priorities, [&](size_t shard, const auto& names, const auto& values) {
    const auto result = shards_[shard]->update_priorities(numbers_[shard], names, values);
    sum.applied += result.applied;
    sum.stale += result.stale;
  });
  return sum;
}

void ShardedTable::update_priorities_async(std::span<const uint64_t> keys,
                                           std::span<const float> priorities) {
  send_by_shard(keys, priorities, [&](size_t shard, const auto& names, const auto& values) {
    shards_[shard]->update_priorities_async(numbers_[shard], names, values);
  });
}

ShardedStream::ShardedStream(ShardedTable& table, const BatchLayout& batch,
                             std::vector<std::span<std::byte>> buffers)
    : table_(table), batch_(batch), buffers_(std::move(buffers)), splits_(buffers_.size()) {
  DRLNET_ASSERT(!buffers_.empty());
  for (size_t i = 0; i < buffers_.size(); ++i) idle_.push_back(i);
  if (buffers_.size() > 1) table_.keep_moving(batch_);
}

ShardedStream::~ShardedStream() {
  for (const size_t buffer : ahead_) table_.abandon(splits_[buffer]);
}

size_t ShardedStream::next(Deadline deadline) {
  for (;;) {
    while (!idle_.empty()) {
      const size_t buffer = idle_.back();
      table_.ask(splits_[buffer], batch_, buffers_[buffer], deadline);
      idle_.pop_back();
      ahead_.push_back(buffer);
    }
    const size_t buffer = ahead_.front();
    table_.wait(splits_[buffer], deadline);  // on a timeout they stay: next() may be called again
    ahead_.pop_front();
    idle_.push_back(buffer);
    if (table_.take(splits_[buffer], batch_, buffers_[buffer], deadline)) return buffer;
  }
}

}  // namespace drlnet
