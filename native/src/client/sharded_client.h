// A client of a replay server: a session with it or, where it has several shards, with each.
//
// Where the shards are, the first one tells (wire/directory.h). Every shard holds its part of each
// table. A stream belongs to one shard: its ordinal, modulo their number, says which. A writer's
// streams go where the fewest are. Params, pings and what a client reports of itself go to the
// first shard. A shard may be lost, where it is another process: then what it held is gone. Batches
// come from the others, its priorities are stale, and a writer with streams there throws ShardLost:
// lease new ones. Threading: as Client; a writer or a stream of batches belongs to one thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "client/batch_layout.h"
#include "client/batch_stream.h"
#include "client/client.h"
#include "client/lost_shards.h"
#include "client/mirror.h"
#include "client/sharded_table.h"
#include "client/sharded_writer.h"

namespace drlnet {

class ShardedClient {
 public:
  // options.address: where the first shard listens. interrupt, run_server: as Client's; with
  // run_server the session is with that one server alone.
  // Throws as Client does, and where another server, or none, is in a shard's place in time.
  explicit ShardedClient(const ClientOptions& options, const std::function<void()>& interrupt = {},
                         const std::function<bool()>& run_server = {});
  ShardedClient(const ShardedClient&) = delete;
  ShardedClient& operator=(const ShardedClient&) = delete;

  uint32_t shards() const { return static_cast<uint32_t>(sessions_.size()); }
  // The session with the first shard: for calls that concern no rows, such as params and pings.
  Client& first() { return *sessions_.front(); }
  // Returns the table's number in the other calls.
  uint32_t open_table(const TableSpec& spec);
  void empty_table(uint32_t table);
  void drop_table(uint32_t table);
  // Leases `streams` of them or, where `held` has any, resumes those instead.
  std::unique_ptr<ShardedWriter> writer(uint32_t table, const TableSpec& spec, uint32_t streams,
                                        const std::vector<Lease>& held, WriterOptions options);
  // memory: as long as the layout says and, with several shards, 8 bytes for each one's head.
  void sample(uint32_t table, const BatchLayout& batch, std::span<std::byte> memory,
              Deadline deadline);
  // The layout and the buffers' memory outlive the stream.
  std::unique_ptr<BatchStream> stream(uint32_t table, const BatchLayout& batch,
                                      std::vector<std::span<std::byte>> buffers);
  // Follows the table, whose rows then travel once: see client/mirror.h. We outlive it.
  std::unique_ptr<MirroredTable> mirror(const TableSpec& spec, Rank rank,
                                        const std::vector<bool>& apart = {});
  UpdateResult update_priorities(uint32_t table, std::span<const uint64_t> keys,
                                 std::span<const float> priorities);
  void update_priorities_async(uint32_t table, std::span<const uint64_t> keys,
                               std::span<const float> priorities);
  // Client's, of one shard's items.
  void read_items(uint32_t table, uint32_t shard, const BatchLayout& batch,
                  std::span<const uint64_t> keys, std::span<std::byte> memory, Deadline deadline);
  bool new_priorities(uint32_t table, uint32_t shard, PriorityChanges& changes);

  void set_timeout(uint64_t timeout_ns);
  void report(const Metrics& metrics);
  // A reading of each shard; of each session.
  std::vector<Metrics> stats();
  std::vector<Metrics> own_metrics();

 private:
  struct Table {
    std::string name;
    std::unique_ptr<ShardedTable> table;
    uint32_t turn;  // the shard that gets the next stream, modulo their number
  };
  // Where the shards are, once all have come.
  DirectoryReply find_shards();
  // Asks the first shard for those that are lost, now and again.
  bool is_lost(uint32_t shard);
  template <typename Visit>
  void each_session(Visit visit) {
    for (uint32_t shard = 0; shard < shards(); ++shard) {
      if (!lost_->has(shard)) visit(shard, *sessions_[shard]);
    }
  }
  bool alone() const { return sessions_.size() == 1; }
  ShardedTable& table(uint32_t number);
  uint32_t number(uint32_t table, uint32_t shard);  // of the table, there
  std::vector<uint32_t> homes(uint32_t table, uint32_t streams);
  void require(uint32_t shard);  // throws ShardLost

  const ClientOptions options_;
  const std::function<void()> interrupt_;
  const bool in_process_;
  const std::shared_ptr<LostShards> lost_ = std::make_shared<LostShards>();
  std::mutex looking_;
  uint64_t looked_ns_ = 0;
  std::vector<std::unique_ptr<Client>> sessions_;  // null: it was lost before we came
  std::mutex mutex_;                               // of what follows
  std::deque<Table> tables_;                       // with several shards; their addresses stay
};

}  // namespace drlnet
