// A table's rows on disk: files of consecutive rows, in parts of a megabyte or so, each row once.
// The name has the table's number and the file's; where two files have a row of the same number,
// the later file is right: what an earlier life of the server had written behind its last snapshot
// does not count. Threading: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
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
  // disk. Throws Error(config); what is to be written again then goes to a new file.
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
  void write_part(const Ring& ring, uint64_t from, uint64_t rows);

  Path folder_;
  uint64_t lineage_;
  uint32_t table_;
  uint64_t next_file_ = 0;
  std::deque<Written> files_;  // the last is open
  File file_;
  uint64_t bytes_written_ = 0;
  std::vector<std::byte> part_;
};

class RowReader {
 public:
  RowReader(const Path& folder, uint64_t lineage, uint32_t table);

  // Rows that cannot be read: [first, end).
  struct Gap {
    uint64_t first, end;
    std::string why;
  };
  // Writes rows [from, to) to their places in the ring, but for their links and items, as far as
  // they can be read. The newest gap among them, if there is one.
  std::optional<Gap> load(Ring& ring, uint64_t from, uint64_t to, ReadProgress& progress) const;

 private:
  struct Part {
    uint64_t first, end;  // of what it has that is right
    size_t file;
    uint64_t offset;  // of its header
    PartHeader header;
  };
  void scan(size_t file);
  void add(const Part& part);
  std::string load(const Part& part, Ring& ring, uint64_t from, uint64_t to) const;

  std::vector<File> files_;
  std::vector<std::string> damage_;  // by file: where its parts cannot be followed
  std::vector<Part> parts_;          // in order, apart
  mutable std::vector<std::byte> body_;
};

// The files of a table, in order.
std::vector<Path> row_files(const Path& folder, uint32_t table);

}  // namespace drlnet
