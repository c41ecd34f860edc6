// A table's rows on disk: files of consecutive rows, each row once, in runs of a megabyte or so. A
// run is two parts: its rows as the index knows them, which is little, and then their columns. So a
// table is there once the first parts are read; the second ones may come while it is drawn from.
// The name has the table's number and the file's; where two files have a row of the same number,
// the later file is right: what an earlier life of the server had written behind its last snapshot
// does not count. Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "replay/ring.h"
#include "storage/file.h"
#include "storage/format.h"
#include "storage/read_progress.h"

namespace drlnet {

class RowWriter {
 public:
  // Goes on behind the files that are there.
  RowWriter(const Path& folder, uint64_t lineage, uint32_t table);

  // Another thread may write to other slots of the ring meanwhile. Returns once the rows are on
  // disk. Throws Error(config), and leaves no new file: all is to be written again, to one.
  void write(const Ring& ring, uint64_t from, uint64_t to);
  // Removes files whose rows are all older.
  void remove_older(uint64_t oldest);
  void remove_all();
  uint64_t bytes_written() const { return bytes_written_; }

 private:
  struct Written {
    Path path;
    uint64_t first;
  };
  void add(const Path& path, uint64_t first);
  void begin_file(const Ring& ring, uint64_t first);
  void write_run(const Ring& ring, uint64_t from, uint64_t rows);

  Path folder_;
  uint64_t lineage_;
  uint32_t table_;
  uint64_t next_file_ = 0;
  std::deque<Written> files_;  // the last is open
  File file_;
  uint64_t bytes_written_ = 0;
  std::vector<std::byte> run_;
};

// Columns of the rows [first, end), as they are on disk.
struct ReadColumns {
  uint64_t first = 0, end = 0;
  uint64_t run_first = 0;  // of the run that they are of
  uint32_t run_rows = 0;
  std::vector<std::byte> bytes;  // of the whole run
  std::string damage;            // why they cannot be read; empty: they are right
};

class RowReader {
 public:
  RowReader(const Path& folder, uint64_t lineage, uint32_t table);

  // Rows that cannot be read: [first, end).
  struct Gap {
    uint64_t first, end;
    std::string why;
  };
  // Writes rows [from, to) to their places in the ring, but for their columns, links and items, as
  // far as they can be read. The newest gap among them, if there is one.
  std::optional<Gap> load(Ring& ring, uint64_t from, uint64_t to, ReadProgress& progress);
  // Then the columns of those behind the gap, a run each time, the newest first. False: that was
  // all.
  bool next_columns(ReadColumns& columns);
  // Writes to their places in the ring those from that row on.
  static void place(const ReadColumns& columns, uint64_t from, Ring& ring);

 private:
  struct Run {
    uint64_t first, end;  // of what it has that is right
    size_t file;
    uint64_t offset;  // of its first header
    PartHeader rows, columns;
  };
  void scan(size_t file);
  bool read_run(size_t file, uint64_t offset, Run& run);
  void add(const Run& run);
  void close_without_runs(size_t file);
  bool load(const Run& run, Ring& ring, uint64_t from, uint64_t to);
  std::string place_of(const Run& run) const;
  bool has_columns(const Run& run) const {
    return run.end > columns_from_ && run.first < columns_to_;
  }
  static uint64_t columns_at(const Run& run);
  void expect_columns(size_t behind) const;

  std::vector<File> files_;
  std::vector<std::string> damage_;  // by file: where its runs cannot be followed
  std::vector<Run> runs_;            // in order, apart
  std::vector<std::byte> body_;
  size_t columns_before_ = 0;  // runs whose columns are still to be read
  uint64_t columns_from_ = 0, columns_to_ = 0;
  uint64_t row_bytes_ = 0;  // of columns
};

// The files of a table, in order.
std::vector<Path> row_files(const Path& folder, uint32_t table);
// The tables that have some.
std::set<uint32_t> tables_with_rows(const Path& folder);

}  // namespace drlnet
