// What a server finds of its state when it starts: the newest record that is whole, and what was
// found damaged on the way to it. Threading: one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/table.h"
#include "storage/file.h"
#include "storage/format.h"
#include "storage/params.h"
#include "storage/read_progress.h"
#include "storage/row_files.h"

namespace drlnet {

class Recovery {
 public:
  // progress: of all that is read here; outlives us.
  Recovery(const Path& folder, uint64_t lineage, ReadProgress& progress);

  // The newest record that is not given up yet: the state as it says, all items included. Null
  // where there is none.
  const SavedState* state() const { return state_ ? state_.get() : nullptr; }
  // Fills the table, which is as new, with that state and its rows but for their columns, for which
  // it returns a reader. Where some rows cannot be read, they and older ones are given up, unless
  // fewer are lost by an older record that does without them: then this returns null, and state()
  // is that one. Throws Error(config) where that does not fit the table.
  std::unique_ptr<RowReader> load(const SavedTable& saved, Table& table);
  // The newest of those that are whole and that the state allows; null where there are none.
  std::shared_ptr<const Params> params();

  // The newest version that a record allows, or params on disk have: in records that are given up,
  // too.
  uint64_t last_params_version() const;

  // Lines for people: what is damaged, and what was done about it.
  const std::vector<std::string>& notes() const { return notes_; }
  uint64_t rows_lost() const { return rows_lost_; }
  KeptSnapshot snapshot() const;  // that of the state

 private:
  struct Record {
    size_t file;
    uint32_t kind;
    SavedState state;
  };
  void read_snapshots();
  void read_snapshot(size_t file);
  void give_up_to(size_t record);
  void put_together();
  std::optional<uint64_t> older_does_without(uint32_t table, uint64_t first, size_t& record) const;

  Path folder_;
  uint64_t lineage_;
  ReadProgress& progress_;
  std::vector<Path> files_;      // of snapshots, in order
  std::vector<Record> records_;  // in order, up to the chosen one
  std::unique_ptr<SavedState> state_;
  std::vector<std::string> notes_;
  uint64_t rows_lost_ = 0, last_params_version_ = 0;
};

// All that there is to read in a shard's folder.
uint64_t bytes_in(const Path& folder);

// The snapshots of a shard, the oldest first; params, by their versions.
std::vector<Path> snapshot_files(const Path& folder);
std::map<uint64_t, Path> params_files(const Path& folder);

}  // namespace drlnet
