// Brings the columns of the rows that tables were restored with, while the server serves: a thread
// of its own reads them, the newest first, and the loop puts them in their places. Threading: one
// thread, the loop's, but for the thread inside.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/wake_fd.h"
#include "base/worker.h"
#include "replay/table.h"
#include "storage/row_files.h"

namespace drlnet {

// A table without its columns, and what reads them.
struct LateTable {
  std::shared_ptr<Table> table;
  std::unique_ptr<RowReader> rows;
  std::string name;
};

// Puts them in their places, for Table::have_columns_from(). What is damaged of them is given up,
// and told in notes.
void place_columns(const ReadColumns& columns, LateTable& late, std::vector<std::string>& notes);
// All of them, at once; its items can be drawn then.
void place_all_columns(LateTable& late, std::vector<std::string>& notes);

class RowLoader {
 public:
  // came: called by the thread inside when there is something to place.
  RowLoader(std::vector<LateTable> tables, std::function<void()> came);
  ~RowLoader();  // gives up what is not placed yet
  RowLoader(const RowLoader&) = delete;
  RowLoader& operator=(const RowLoader&) = delete;

  // Places a run of rows; false: none has come, or none will come any more.
  bool place_next(std::vector<std::string>& notes);
  bool finished() const { return tables_.empty(); }
  // Those without their columns.
  uint64_t rows_to_come() const;

 private:
  struct Come {
    size_t table = 0;
    bool last = false;  // of the table: no columns
    ReadColumns columns;
  };
  void read_all();
  bool give(Come come);
  ReadColumns spare();

  std::vector<LateTable> tables_;
  std::vector<RowReader*> readers_;  // the thread's
  const std::function<void()> came_;
  std::mutex mutex_;
  WakeFd room_;
  bool stopping_ = false;
  std::deque<Come> come_;
  std::vector<ReadColumns> spares_;
  size_t ended_ = 0;
  std::unique_ptr<Worker> thread_;
};

}  // namespace drlnet
