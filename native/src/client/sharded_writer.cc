#include "client/sharded_writer.h"

#include "base/assert.h"

namespace drlnet {

ShardedWriter::ShardedWriter(std::vector<Part> parts, uint32_t shards,
                             std::shared_ptr<const LostShards> lost, const TableSpec& spec)
    : parts_(std::move(parts)), shards_(shards), lost_(std::move(lost)) {
  for (const Part& part : parts_) streams_ += part.streams;
  for (const ColumnSpec& column : spec.columns) {
    column_bytes_.push_back(static_cast<uint32_t>(column.bytes()));
  }
}

void ShardedWriter::append(std::span<const std::byte* const> columns,
                           std::span<const uint8_t> first, std::span<const uint8_t> last,
                           std::span<const uint8_t> mask, std::span<int64_t> steps) {
  if (parts_.size() == 1) return parts_[0].writer->append(columns, first, last, mask, steps);
  DRLNET_ASSERT(columns.size() == column_bytes_.size() && steps.size() == streams_);
  DRLNET_ASSERT(first.size() == streams_ && last.size() == streams_);
  DRLNET_ASSERT(mask.empty() || mask.size() == streams_);
  for (const Part& part : parts_) {
    part_columns_.clear();
    for (size_t c = 0; c < columns.size(); ++c) {
      part_columns_.push_back(columns[c] + size_t{part.first} * column_bytes_[c]);
    }
    const auto share = [&](auto values) {
      return values.empty() ? values : values.subspan(part.first, part.streams);
    };
    part.writer->append(part_columns_, share(first), share(last), share(mask), share(steps));
  }
}

void ShardedWriter::add_items(std::span<const int64_t> streams, std::span<const int64_t> steps,
                              std::span<const float> priorities) {
  if (parts_.size() == 1) return parts_[0].writer->add_items(streams, steps, priorities);
  check_items(streams_, streams, steps, priorities);
  for (const Part& part : parts_) {
    part_streams_.clear();
    part_steps_.clear();
    part_priorities_.clear();
    for (size_t i = 0; i < streams.size(); ++i) {
      const int64_t stream = streams[i] - part.first;
      if (stream < 0 || stream >= part.streams) continue;
      part_streams_.push_back(stream);
      part_steps_.push_back(steps[i]);
      if (!priorities.empty()) part_priorities_.push_back(priorities[i]);
    }
    part.writer->add_items(part_streams_, part_steps_, part_priorities_);
  }
}

void ShardedWriter::flush() {
  for (const Part& part : parts_) part.writer->flush();
}

void ShardedWriter::release() {
  for (const Part& part : parts_) {
    if (lost_->has(part.shard)) continue;
    try {
      part.writer->release();
    } catch (const ShardLost&) {
    }
  }
}

std::vector<Lease> ShardedWriter::leases() const {
  std::vector<Lease> all;
  for (const Part& part : parts_) {
    for (Lease lease : part.writer->leases()) {
      lease.ordinal = lease.ordinal * shards_ + part.shard;
      all.push_back(lease);
    }
  }
  return all;
}

uint64_t ShardedWriter::sum(uint64_t (StreamWriter::*figure)() const) const {
  uint64_t total = 0;
  for (const Part& part : parts_) total += (part.writer.get()->*figure)();
  return total;
}

}  // namespace drlnet
