// Which shards of a server are lost for good, as a client's parts share it. Threading: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace drlnet {

// What waits for a shard that is lost. Its streams' leases are held no longer.
class ShardLost : public Error {
 public:
  ShardLost(uint32_t shard, const std::string& address)
      : Error(Status::unknown_lease,
              "shard " + std::to_string(shard) + " at " + address +
                  " is lost, and what it held with it",
              "lease streams anew: they go to the others") {}
};

class LostShards {
 public:
  bool has(uint64_t shard) const {
    return ((bits_.load(std::memory_order_relaxed) >> shard) & 1) != 0;
  }
  void add(uint64_t shard) { bits_.fetch_or(uint64_t{1} << shard, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> bits_{0};  // 64 shards at most
};

}  // namespace drlnet
