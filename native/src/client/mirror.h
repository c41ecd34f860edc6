// A table whose rows travel once: this client follows it, and its batches are gathered here. The
// server draws them and names their rows. A follower has a session of its own with each shard, so
// that its bytes neither wait for the caller's requests nor keep those waiting.
// Threading: as Client.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/row_mirror.h"
#include "client/sharded_table.h"

namespace drlnet {

// Several learners that draw from one table: this is one of them.
struct Rank {
  uint32_t rank = 0, world = 1;
};

class Mirror {
 public:
  // A session for rows with that shard; `interrupt` is the client's, see there.
  using Connect =
      std::function<std::unique_ptr<Client>(uint32_t shard, std::function<void()> interrupt)>;

  // numbers: the table's, at each shard. Throws Error(config) for a queue, and where the memory
  // that the rows take is more than this machine has left.
  // apart: see RowMirror; one shard's rows lie behind the other's there.
  Mirror(const TableSpec& spec, std::vector<uint32_t> numbers, Rank rank, const Connect& connect,
         std::function<void()> interrupt, const std::vector<bool>& apart);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // The only shard that this rank draws from and follows; none: all of them.
  std::optional<uint32_t> only() const { return only_; }
  uint32_t world() const { return rank_.world; }
  // Bytes of a sample by reference of that many items.
  uint64_t reference_bytes(uint64_t items) const;
  // See RowMirror::from(), of that shard's.
  uint64_t from(size_t shard, Deadline deadline);
  // Waits for rows of that shard, for a moment.
  void wait_for_news(size_t shard, Deadline deadline);
  [[noreturn]] void throw_empty() const;  // a draw waited in vain for an item whose rows are here
  // Waits until all rows are here that the server has.
  void wait_until_whole(Deadline deadline) const;
  // Gathers what a sample by reference of a shard named, when all of its rows are here, into the
  // first of the places: how many items that is. The others had a row that is gone.
  // Throws Error(timeout) where rows are still on their way at the deadline.
  uint32_t gather(uint32_t shard, std::span<const std::byte> references,
                  FunctionRef<const Places&(uint32_t)> places_of, Deadline deadline);

  // Where rows are kept apart: their places, that of zeros included.
  uint64_t places() const { return places_; }
  // RowMirror's, over all shards. For one thread, while none gathers.
  RowMirror::Run copy_apart(std::span<const std::span<std::byte>> to);
  bool has_shown(bool let_go);

  void read_metrics(Metrics& metrics) const;

 private:
  struct Shard {
    Shard(const TableSpec& part, const std::vector<bool>& apart, uint32_t first_place)
        : rows(part, apart, first_place) {}
    RowMirror rows;
    RowMirror::Copied copied;
    uint32_t table = 0;
    std::unique_ptr<Client> client;
    std::thread thread;
  };
  void follow(Shard& shard);

  Rank rank_;
  std::optional<uint32_t> only_;
  Reach reach_;
  SampleLayout layout_;
  uint64_t memory_bytes_ = 0, places_ = 1;
  uint64_t row_bytes_;
  std::function<void()> interrupt_;
  std::atomic<bool> stopping_ = false, followed_ = false;
  std::atomic<uint64_t> drawn_ = 0, replaced_ = 0, wait_ns_ = 0;
  std::vector<std::unique_ptr<Shard>> shards_;  // null: not followed
};

// With the draws from it.
class MirroredTable {
 public:
  MirroredTable(std::vector<Client*> shards, const TableSpec& spec, Rank rank,
                const Mirror::Connect& connect, const std::function<void()>& interrupt,
                const std::vector<bool>& apart = {})
      : table_(std::move(shards), spec),
        mirror_(spec, table_.numbers(), rank, connect, interrupt, apart) {
    table_.gather_from(mirror_);
  }
  ShardedTable& table() { return table_; }
  Mirror& mirror() { return mirror_; }

 private:
  ShardedTable table_;
  Mirror mirror_;
};

}  // namespace drlnet
