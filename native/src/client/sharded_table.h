// A table of a server of several shards. A batch is drawn from all of them: each gives as many of
// its items as its share of the priority mass says, into rows of the caller's batch.
//
// With shares m_s / M, as the shards last told their masses, and one random number u in [0, 1), the
// rows of shard s are those i with M_{s-1} / M <= (i + u) / n < M_s / M, M_s = m_1 + ... + m_s: n_s
// is n m_s / M rounded up or down, and right in the mean. Hence an item of shard s with stored
// priority p_i, where these add up to S_s, was drawn with probability (m_s / M) p_i / S_s, however
// old the m are: what a batch reports. (Where n_s is exact, it is (n_s / n) p_i / S_s.)
// Threading: as Client; a stream belongs to one thread.
#pragma once

#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "base/random.h"
#include "client/batch_layout.h"
#include "client/batch_stream.h"
#include "client/client.h"

namespace drlnet {

// One batch under way: what each shard is asked for.
struct SplitSample {
  struct Part {
    std::optional<CallId> call;
    uint32_t first = 0, rows = 0;  // of the batch
    double share = 0;
    SampleHeader header{};
    Places places;
  };
  std::vector<Part> parts;  // by shard
};

class ShardedTable {
 public:
  // Opens the table at every shard, the first one first. The clients, one for each, outlive us.
  ShardedTable(std::vector<Client*> shards, const TableSpec& spec);
  ~ShardedTable();
  ShardedTable(const ShardedTable&) = delete;
  ShardedTable& operator=(const ShardedTable&) = delete;

  uint32_t number(uint32_t shard) const { return numbers_[shard]; }  // of the table, there
  uint32_t first_shard() const { return first_shard_; }  // where our first stream is to go

  // memory: what the layout takes, and behind it 8 bytes for each shard's head. The header adds up
  // what the shards say, but for `head`. Draws that expired are drawn again. One that ran into its
  // deadline stays asked for, and answers the next call for as many.
  void sample(const BatchLayout& batch, std::span<std::byte> memory, Deadline deadline);
  UpdateResult update_priorities(std::span<const uint64_t> keys, std::span<const float> priorities);
  void update_priorities_async(std::span<const uint64_t> keys, std::span<const float> priorities);

  // In this order, each with the same batch and memory: asks all shards; waits for all, a timeout
  // leaving them asked; takes what has come. False: there is no batch yet, ask again.
  void ask(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
           Deadline deadline);
  void wait(SplitSample& split, Deadline deadline);
  bool take(SplitSample& split, const BatchLayout& batch, std::span<std::byte> memory,
            Deadline deadline);
  void abandon(SplitSample& split);
  // Replies as long as that batch's come in while nobody waits for them.
  void keep_moving(const BatchLayout& batch);
  size_t bytes(const BatchLayout& batch) const {
    return batch.memory_bytes() + sizeof(SampleHeader::head) * shards_.size();
  }

 private:
  struct LateSample {
    uint32_t batch;
    SplitSample split;
  };
  void divide(SplitSample& split, uint32_t batch);
  void sum_up(const SplitSample& split, const BatchLayout& batch,
              std::span<std::byte> memory) const;
  std::optional<SplitSample> take_late(uint32_t batch);
  void keep_late(uint32_t batch, SplitSample split);
  template <typename Send>
  void send_by_shard(std::span<const uint64_t> keys, std::span<const float> priorities, Send send);

  std::vector<Client*> shards_;
  std::vector<uint32_t> numbers_;
  uint32_t first_shard_ = 0;
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
  ShardedTable& table_;
  const BatchLayout& batch_;
  std::vector<std::span<std::byte>> buffers_;
  std::vector<SplitSample> splits_;  // of each buffer
  std::deque<size_t> ahead_;         // buffers, in the order in which they were asked for
  std::vector<size_t> idle_;
};

}  // namespace drlnet
