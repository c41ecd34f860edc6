// A server of several shards: poll loops, each on its own thread with its own listeners and its own
// part of every table. What those of one process have in common is here and in LogicalTable. Some
// may be in other processes, on other hosts: the first shard's process keeps the directory of all
// (wire/directory.h), and the others tell it how they stand, again and again.
// Threading: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "replay/logical_table.h"
#include "spec/table_spec.h"
#include "wire/directory.h"

namespace drlnet {

class Server;
struct ServerOptions;

class Shards {
 public:
  static constexpr uint64_t kSilenceNs = 3'000'000'000;  // after which a process is given up

  // own: of this process, the first ones; the others come from elsewhere.
  Shards(uint32_t count, uint32_t own, uint64_t lineage);
  // For a process that has got its places from the directory.
  Shards(const DirectoryReply& places, uint32_t own);

  uint32_t count() const { return static_cast<uint32_t>(servers_.size()); }  // of all processes
  uint32_t own() const { return own_; }
  uint32_t first() const { return first_; }
  uint64_t lineage() const { return lineage_; }  // one server to its clients
  void join(uint32_t shard, Server& server);
  void leave(uint32_t shard);
  // What a table's shards share: made by the process's first shard, where clients open it first.
  // Throws Error(table_dropped, table_mismatch) where that one has it no more, or another one.
  std::shared_ptr<LogicalTable> table(const TableSpec& spec, uint32_t shard);
  // The shard's part of a table.
  TableSpec part(TableSpec spec, uint32_t shard) const;

  // The directory's process: listener: by which the answer goes.
  // Throws Error(config, session_lost) where there is no place, or none any more.
  DirectoryReply answer(const DirectoryRequest& request, uint16_t listener, uint64_t now_ns);
  // Gives processes up that were silent; stood_ns: that this process stood still meanwhile.
  void expire(uint64_t now_ns, uint64_t stood_ns);
  // Those that were given up, with their addresses.
  std::vector<std::pair<uint32_t, std::string>> lost();
  // Another process: what it tells the directory, and hears.
  DirectoryRequest tell();
  void hear(const DirectoryReply& reply);

  std::atomic<uint64_t> params_version{0};  // the first shard's, which owns them
  std::atomic<bool> first_is_whole{false};  // its state was found as it had been written

 private:
  // Another process that has places.
  struct Member {
    uint32_t first, places;
    uint64_t heard_ns;
    bool lost = false;
    std::vector<std::string> addresses{};
    std::vector<TableTally> tables{};
  };
  using News = std::vector<std::pair<std::shared_ptr<LogicalTable>, Tally>>;

  void wake(uint64_t shards);
  uint32_t give_places(uint32_t count, uint64_t now_ns);
  Member& member(uint32_t first);
  News news_of(const std::vector<TableTally>& tables, bool lost);

  const uint64_t lineage_;
  const uint32_t first_, own_;
  std::mutex mutex_;  // not while a table is told: that wakes its shards
  std::vector<Server*> servers_;
  std::vector<std::vector<std::string>> addresses_;  // of each shard's listeners
  std::vector<Member> members_;
  struct Shared {
    TableSpec asked;
    std::weak_ptr<LogicalTable> table;
  };
  std::map<std::string, Shared> tables_;
};

// What is told of a state while it is read: "reading its state: 1.2 of 7.0 GB". False: give it up
// (it may be called on until the disk has answered).
using OnLoading = std::function<bool(const std::string&)>;

// The shards of one server, `count` of them or a server that is alone. Shard i listens where
// shard_address(address, i) says; where the first one chose a port of its own, next to that.
// elsewhere: how many more come from other processes.
// on_loading: called often in this thread, where there is a state; clients that come meanwhile are
// told, too. None where it gives up; the state stays as it was. Throws Error(transport, config),
// and what on_loading throws.
std::vector<std::unique_ptr<Server>> make_shards(const ServerOptions& options, uint32_t count,
                                                 uint32_t elsewhere = 0,
                                                 const OnLoading& on_loading = {});
// `count` of the shards that another process's server waits for, in the places that it has given.
std::vector<std::unique_ptr<Server>> make_shards_of(const DirectoryReply& places,
                                                    const ServerOptions& options, uint32_t count);

}  // namespace drlnet
