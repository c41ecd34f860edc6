// Writes a shard's state behind its loop, in a thread of its own. The loop makes a cut, which is a
// copy of all that changes but for the rows; those are read out of the tables' rings, since they
// never change. A cut is one record: rows first, then params, then the record, each on disk before
// the next. The first record of a snapshot tells all, those behind it what changed; the one before
// the newest snapshot is kept. Threading: one thread, the loop's, but for the thread inside.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/wake_fd.h"
#include "base/worker.h"
#include "replay/table.h"
#include "storage/file.h"
#include "storage/format.h"
#include "storage/item_shadow.h"
#include "storage/params.h"
#include "storage/row_files.h"

namespace drlnet {

// What is to be written. The loop keeps the tables' rows [rows_from[i], head) until it is.
struct Cut {
  SavedState state;
  std::vector<std::shared_ptr<const Table>> tables;  // as in state
  std::vector<uint64_t> rows_from;
  std::shared_ptr<const Params> params;
  uint64_t began_ns = 0;
};

class Storage {
 public:
  // done: called by the thread inside when a cut is on disk, or the disk's state has changed.
  // keep: the snapshot that the server goes on from, if there is one.
  Storage(const Path& folder, uint64_t lineage, KeptSnapshot keep, std::function<void()> done);
  // Gives up a cut that is not written yet.
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  bool busy() const { return cut_ != nullptr; }
  void write(std::unique_ptr<Cut> cut);  // not while busy()
  // Whether take_written() has something: may be asked at any time.
  bool has_written() const { return written_.load(std::memory_order_acquire); }
  // The cut, once it is on disk.
  std::unique_ptr<Cut> take_written();
  // Waits until the cut is on disk. Throws Error(config) where the disk does not take it in a try
  // that begins now.
  void finish();
  // Why the disk takes nothing at present, or nothing. It is tried again each second.
  std::string trouble() const;
  bool in_trouble() const { return in_trouble_.load(std::memory_order_relaxed); }
  void read_metrics(Metrics& metrics) const;

 private:
  void loop();
  bool cut_waits();
  bool stops_by(uint64_t until_ns);
  void try_to_write(const Cut& cut);
  void write_out(const Cut& cut);
  void write_rows(const Cut& cut);
  void write_params(const Cut& cut);
  void write_record(const Cut& cut);
  void forget_given_up(const Path& ours);
  void begin_snapshot(const Cut& cut, SavedState&& all);
  bool wants_snapshot(const Cut& cut) const;
  void forget_dropped(const Cut& cut);
  void remove_unfinished() const;
  void after_trouble();

  const Path folder_;
  const uint64_t lineage_;
  const std::set<uint32_t> kept_tables_;  // of the snapshot that this life goes on from
  const std::function<void()> done_;
  // The thread's.
  struct TableFiles {
    RowWriter rows;
    ItemShadow items;
    uint64_t base_head = 0, base_oldest = 0, previous_oldest = 0;
  };
  std::map<uint32_t, TableFiles> tables_;
  File snapshot_;
  std::vector<Path> snapshots_;  // those that are kept, the oldest first
  std::map<std::string, SavedBlob> blobs_;
  uint64_t base_bytes_ = 0;
  uint64_t applied_ = 0;  // the newest cut in the tables' items
  uint64_t params_written_ = 0;
  Bytes record_;

  std::unique_ptr<Cut> cut_;
  std::atomic<bool> written_{false}, in_trouble_{false};
  mutable std::mutex mutex_;
  WakeFd asked_, ended_;                     // the thread is; a try to write a cut has
  bool waiting_ = false, stopping_ = false;  // a cut waits for the thread; it is to end
  bool hurries_ = false;                     // it is to try again at once
  uint64_t tries_begun_ = 0, last_failed_ = 0;
  std::string trouble_, remedy_;
  uint64_t bytes_written_ = 0, rows_written_ = 0, records_ = 0, snapshots_written_ = 0,
           failures_ = 0, last_ns_ = 0;
  std::unique_ptr<Worker> thread_;
};

}  // namespace drlnet
