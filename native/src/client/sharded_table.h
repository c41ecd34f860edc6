// A table of a server of several shards. A batch is drawn from all of them: each gives as many of
// its items as its share of the priority mass says, into rows of the caller's batch.
//
// With shares m_s / M, as the shards last told their masses, and one random number u in [0, 1), the
// rows of shard s are those i with M_{s-1} / M <= (i + u) / n < M_s / M, M_s = m_1 + ... + m_s: n_s
// is n m_s / M rounded up or down, and right in the mean. Hence an item of shard s with stored
// priority p_i, where these add up to S_s, was drawn with probability (m_s / M) p_i / S_s, however
// old the m are: what a batch reports. (Where n_s is exact, it is (n_s / n) p_i / S_s.)
//
// A shard that has not got n_s any more gives none: those rows, a gap, are divided anew, and the
// others stay. In a queue m_s counts the draws that are left; where fewer than n are known of, the
// shards are asked how they stand once they have as many between them. So no part waits for its own
// shard alone. A stream gathers one batch of a queue at a time: each could hold what another lacks.
//
// A rank of as many learners as there are shards draws from its own shard alone: of a batch of all
// ranks together, n from each, an item is drawn with 1 / world p_i / S_s.
// Where a shard is lost while a batch is under way, all of it is drawn anew, from the others: so
// the probabilities are those of a table without it. Threading: as Client; a stream belongs to one
// thread.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "client/batch_layout.h"
#include "client/batch_stream.h"
#include "client/client.h"
#include "client/lost_shards.h"

namespace drlnet {

class Mirror;

// One batch under way: what each shard is asked for.
struct SplitSample {
  struct Rows {
    uint32_t first = 0, count = 0;  // of the batch
  };
  struct Part {
    size_t shard = 0;
    Rows rows{};
    uint32_t least = 0;  // see SampleRequest
    double share = 0;
    std::optional<CallId> call{};
    SampleHeader header{};
    Places places{};
    std::vector<std::byte> references{};  // of a mirrored table: what comes in place of the rows
    bool come = false;                    // they have, and wait for their rows
  };
  std::vector<Rows> gaps;             // to be asked for
  std::vector<Part> parts;            // asked for
  std::vector<SampleHeader> headers;  // by shard: the newest ones
  bool nothing_here = false;          // the last answers named no item, see Mirror::throw_empty()
};

class ShardedTable {
 public:
  // Opens the table at every shard that is not lost, the first one first. The clients, one for
  // each, outlive us.
  ShardedTable(std::vector<Client*> shards, const TableSpec& spec,
               std::shared_ptr<const LostShards> lost = std::make_shared<LostShards>());
  ~ShardedTable();
  ShardedTable(const ShardedTable&) = delete;
  ShardedTable& operator=(const ShardedTable&) = delete;

  uint32_t number(uint32_t shard) const { return numbers_[shard]; }  // of the table, there
  const std::vector<uint32_t>& numbers() const { return numbers_; }
  // From now on the server only names rows, which lie there. It outlives all samples.
  void gather_from(Mirror& mirror) { mirror_ = &mirror; }
  uint32_t first_shard() const { return first_shard_; }  // where our first stream is to go
  bool is_queue() const { return queue_; }

  // memory: what the layout takes, and behind it 8 bytes for each shard's head. The header adds up
  // what the shards say, but for `head`. Draws that expired are drawn again. One that ran into its
  // deadline stays asked for, and answers the next call for as many.
  void sample(const BatchLayout& batch, std::span<std::byte> memory, Deadline deadline);
  UpdateResult update_priorities(std::span<const uint64_t> keys, std::span<const float> priorities);
  void update_priorities_async(std::span<const uint64_t> keys, std::span<const float> priorities);

  // In this order, each with the same batch and memory, the last two again until there is a batch.
  SplitSample begin(const BatchLayout& batch, std::span<std::byte> memory) const;
  void ask(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
           Deadline deadline);
  // Asks all shards, where they are not asked, and waits for all. A timeout leaves them asked.
  void gather(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
              Deadline deadline);
  // Takes what has come. False: there are gaps left.
  bool take(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
            Deadline deadline);
  // Like take(), but begins the batch anew where a shard is lost: it has gaps then.
  bool taken(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
             Deadline deadline);
  // All of it is to be drawn anew: a shard is lost.
  void begin_anew(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory);
  // What is asked for is a gap again.
  void abandon(SplitSample& split);
  // Replies as long as that batch's come in between calls.
  void keep_moving(const BatchLayout& batch);
  size_t bytes(const BatchLayout& batch) const {
    return batch.memory_bytes() + (shards_.size() > 1 ? sizeof(uint64_t) * shards_.size() : 0);
  }

 private:
  struct LateSample {
    uint32_t batch;
    SplitSample split;
    std::vector<std::byte> memory;  // with what it had got before
  };
  void divide(SplitSample& split);
  void place(SplitSample::Part& part, const BatchLayout& batch, std::span<std::byte> memory) const;
  void gather_here(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
                   Deadline deadline);
  static void sum_up(const SplitSample& split, const BatchLayout& batch,
                     std::span<std::byte> memory);
  std::optional<LateSample> take_late(uint32_t batch);
  void keep_late(SplitSample split, uint32_t batch, std::span<std::byte> memory);
  template <typename Send>
  void send_by_shard(std::span<const uint64_t> keys, std::span<const float> priorities, Send send);

  bool lost(size_t shard) const { return lost_->has(shard); }

  std::vector<Client*> shards_;
  std::shared_ptr<const LostShards> lost_;
  std::vector<uint32_t> numbers_;
  uint32_t first_shard_ = 0;
  bool queue_;
  Mirror* mirror_ = nullptr;
  std::mutex mutex_;  // of what follows
  Random random_;
  std::vector<double> masses_;  // as last told
  std::deque<LateSample> late_;
};

// A stream of batches of several shards.
class ShardedStream final : public BatchStream {
 public:
  // The layout and the memory of the buffers outlive us.
  ShardedStream(ShardedTable& table, const BatchLayout& batch,
                std::vector<std::span<std::byte>> buffers);
  ~ShardedStream() override;

  size_t next(Deadline deadline) override;

 private:
  void ask_ahead(Deadline deadline);

  ShardedTable& table_;
  const BatchLayout& batch_;
  std::vector<std::span<std::byte>> buffers_;
  std::vector<SplitSample> splits_;  // of each buffer
  std::deque<size_t> ahead_;         // buffers, in the order in which they were asked for
  std::vector<size_t> idle_;
  std::optional<size_t> ready_;  // a batch to be handed out
};

}  // namespace drlnet
