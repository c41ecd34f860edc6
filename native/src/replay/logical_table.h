// What the shards of one table have in common: its limiter, and how many streams each of them has.
// A shard that has to wait is woken when another one has changed what it waits for.
// Threading: any thread; each call holds a lock for some ten nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "replay/limiter.h"

namespace drlnet {

class LogicalTable {
 public:
  static constexpr uint32_t kMaxShards = 64;  // bits of what wake is told

  // wake: called without the lock; bit i: what shard i lets wait is to be tried again.
  LogicalTable(const LimiterSpec& limiter, uint32_t shards, std::function<void(uint64_t)> wake);

  // Whether the limiter lets these many items in now. If so they have their room, and appended()
  // must follow; else the shard stands in line, that none passes another again and again.
  bool take_room(uint32_t shard, uint64_t items);
  // room: what take_room() gave; live_items: of the shard, from now on.
  void appended(uint32_t shard, uint64_t room, uint64_t created, uint64_t live_items);
  // What the shard stood in line for is gone.
  void leave_line(uint32_t shard);

  // Wait::none when `batch` draws are allowed now, which are counted then; else why not.
  Wait take_draws(uint32_t shard, uint64_t batch);

  void set_streams(uint32_t shard, uint32_t count);
  // The shard with the fewest streams; of several the one whose turn it is.
  uint32_t emptiest();

 private:
  uint64_t others_waiting(uint32_t shard);

  std::function<void(uint64_t)> wake_;
  std::mutex mutex_;
  Limiter limiter_;
  std::vector<uint64_t> live_items_;  // by shard, as are streams_
  uint64_t all_live_items_ = 0;
  uint64_t room_ = 0;           // given and not yet used
  std::vector<uint32_t> line_;  // of shards that have something to insert
  uint64_t waiting_ = 0;        // bit i: shard i lets a request wait
  std::vector<uint32_t> streams_;
  uint32_t turn_ = 0;
};

}  // namespace drlnet
