// The writer of streams that belong to one or several shards: a StreamWriter for each run of
// streams of one shard. Threading: one thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "client/lost_shards.h"
#include "client/writer.h"

namespace drlnet {

class ShardedWriter {
 public:
  struct Part {
    std::unique_ptr<StreamWriter> writer;
    uint32_t shard;
    uint32_t first, streams;  // of this writer's
  };

  // parts: together they hold the streams 0 to n - 1, in order.
  ShardedWriter(std::vector<Part> parts, uint32_t shards, std::shared_ptr<const LostShards> lost,
                const TableSpec& spec);
  ShardedWriter(const ShardedWriter&) = delete;
  ShardedWriter& operator=(const ShardedWriter&) = delete;

  // Like StreamWriter's, but throws before any part has taken an item.
  void append(std::span<const std::byte* const> columns, std::span<const uint8_t> first,
              std::span<const uint8_t> last, std::span<const uint8_t> mask,
              std::span<int64_t> steps);
  void add_items(std::span<const int64_t> streams, std::span<const int64_t> steps,
                 std::span<const float> priorities);
  void flush();
  void release();                     // what a lost shard had is released with it
  std::vector<Lease> leases() const;  // their ordinals count over all shards
  uint64_t rows_stored() const { return sum(&StreamWriter::rows_stored); }
  uint64_t items_created() const { return sum(&StreamWriter::items_created); }
  uint64_t items_refused() const { return sum(&StreamWriter::items_refused); }

 private:
  uint64_t sum(uint64_t (StreamWriter::*figure)() const) const;

  std::vector<Part> parts_;
  uint32_t shards_, streams_ = 0;
  std::shared_ptr<const LostShards> lost_;
  std::vector<uint32_t> column_bytes_;
  // One part's share of a call.
  std::vector<const std::byte*> part_columns_;
  std::vector<int64_t> part_streams_, part_steps_;
  std::vector<float> part_priorities_;
};

}  // namespace drlnet
