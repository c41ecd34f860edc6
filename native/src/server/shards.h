// A server of several shards: poll loops of one process, each on its own thread with its own
// listeners and its own part of every table. What they have in common is here and in LogicalTable.
// Threading: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "replay/logical_table.h"
#include "spec/table_spec.h"

namespace drlnet {

class Server;
struct ServerOptions;

class Shards {
 public:
  Shards(uint32_t count, uint64_t lineage);

  uint32_t count() const { return static_cast<uint32_t>(servers_.size()); }
  uint64_t lineage() const { return lineage_; }  // one server to its clients
  void join(uint32_t shard, Server& server);
  void leave(uint32_t shard);
  // What a table's shards share: made by the first shard, where clients open it first.
  // Throws Error(table_dropped, table_mismatch) where that one has it no more, or another one.
  std::shared_ptr<LogicalTable> table(const TableSpec& spec, uint32_t shard);
  // The shard's part of a table.
  TableSpec part(TableSpec spec, uint32_t shard) const;

  std::atomic<uint64_t> params_version{0};  // the first shard's, which owns them

 private:
  void wake(uint64_t shards);

  const uint64_t lineage_;
  std::mutex mutex_;
  std::vector<Server*> servers_;
  struct Shared {
    TableSpec asked;
    std::weak_ptr<LogicalTable> table;
  };
  std::map<std::string, Shared> tables_;
};

// The shards of one server, `count` of them or a server that is alone. Shard i listens where
// shard_address(address, i) says; where the first one chose a port of its own, next to that.
// Throws Error(transport, config).
std::vector<std::unique_ptr<Server>> make_shards(const ServerOptions& options, uint32_t count);

}  // namespace drlnet
