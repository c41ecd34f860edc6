#include "storage/row_files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/crc32c.h"

namespace drlnet {
namespace {

constexpr std::string_view kPrefix = "rows-";
constexpr uint64_t kRunBytes = 1 << 20;
constexpr uint64_t kUnknown = ~uint64_t{0};  // where a file begins
constexpr size_t kRunsAhead = 32;            // that the disk reads while one is taken in
constexpr uint64_t kMinFileBytes = 1 << 20, kMaxFileBytes = 256 << 20;

std::string prefix_of(uint32_t table) {
  char name[32];
  std::snprintf(name, sizeof name, "%s%05u-", kPrefix.data(), table);
  return name;
}

uint64_t column_bytes_of(const Ring& ring) {
  uint64_t bytes = 0;
  for (size_t c = 0; c < ring.columns(); ++c) bytes += ring.column(c).row_bytes;
  return bytes;
}

}  // namespace

std::vector<Path> row_files(const Path& folder, uint32_t table) {
  std::vector<Path> files;
  for (auto& [number, path] : numbered_files(folder, prefix_of(table))) files.push_back(path);
  return files;
}

std::set<uint32_t> tables_with_rows(const Path& folder) {
  std::set<uint32_t> tables;
  for (const Path& path : list_folder(folder)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kPrefix)) continue;
    uint32_t table = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), table);
    // What is not ours may have any name.
    if (!tables.contains(table) && !row_files(folder, table).empty()) tables.insert(table);
  }
  return tables;
}

RowWriter::RowWriter(const Path& folder, uint64_t lineage, uint32_t table)
    : folder_(folder), lineage_(lineage), table_(table) {
  for (const auto& [number, path] : numbered_files(folder, prefix_of(table))) {
    std::vector<std::byte> head(sizeof(FileHeader));
    head.resize(File::open(path).read(0, head));
    bool ok = false;
    const FileHeader header = read_header(head, FileKind::rows, lineage, ok);
    add(path, ok ? header.first : kUnknown);
    next_file_ = number + 1;
  }
}

// A file that does not say where it begins (its header was not written) goes with the one behind
// it: the rows of the one before it reach up to there.
void RowWriter::add(const Path& path, uint64_t first) {
  for (auto file = files_.rbegin(); file != files_.rend() && file->first == kUnknown; ++file) {
    file->first = first;
  }
  files_.push_back({path, first});
}

void RowWriter::begin_file(const Ring& ring, uint64_t first) {
  char name[32];
  std::snprintf(name, sizeof name, "%012llu", static_cast<unsigned long long>(next_file_));
  const Path path = folder_ / (prefix_of(table_) + name);
  file_ = File::create(path);
  ++next_file_;
  add(path, first);
  FileHeader header{.kind = FileKind::rows,
                    .lineage = lineage_,
                    .name = table_,
                    .first = first,
                    .row_bytes = static_cast<uint32_t>(sizeof(SavedRow) + column_bytes_of(ring))};
  set_crc(header);
  file_.append(std::as_bytes(std::span(&header, 1)));
}

void RowWriter::write(const Ring& ring, uint64_t from, uint64_t to) {
  const uint64_t row_bytes = sizeof(SavedRow) + column_bytes_of(ring);
  const uint64_t file_bytes =
      std::clamp(ring.capacity() * row_bytes / 16, kMinFileBytes, kMaxFileBytes);
  const uint64_t most = std::max<uint64_t>(kRunBytes / row_bytes, 1);
  const size_t before = files_.size();
  try {
    while (from < to) {
      if (!file_.is_open()) begin_file(ring, from);
      const uint64_t slot = from % ring.size();
      const uint64_t rows = std::min({to - from, most, ring.size() - slot});
      write_run(ring, from, rows);
      from += rows;
      if (file_.bytes() < file_bytes) continue;
      file_.sync();
      file_.close();
    }
    if (file_.is_open()) file_.sync();
  } catch (const Error&) {
    file_.close();
    for (; files_.size() > before; files_.pop_back(), --next_file_) remove_file(files_.back().path);
    throw;
  }
}

void RowWriter::write_run(const Ring& ring, uint64_t from, uint64_t rows) {
  const auto first_slot = static_cast<uint32_t>(from % ring.size());
  const uint64_t known_bytes = rows * sizeof(SavedRow), column_bytes = rows * column_bytes_of(ring);
  run_.resize(2 * sizeof(PartHeader) + known_bytes + column_bytes);
  std::byte* const known = run_.data() + sizeof(PartHeader);
  std::byte* to = known;
  for (uint32_t i = 0; i < rows; ++i, to += sizeof(SavedRow)) {
    const Row& row = ring.row(first_slot + i);
    const SavedRow saved{row.step, row.ordinal, row.since_first, row.flags};
    std::memcpy(to, &saved, sizeof saved);
  }
  std::byte* const columns = to + sizeof(PartHeader);
  to = columns;
  for (size_t c = 0; c < ring.columns(); ++c) {
    const RowColumn& column = ring.column(c);
    const uint64_t pieces = column.together() ? 1 : rows;
    const uint64_t bytes = rows / pieces * column.row_bytes;
    for (uint64_t i = 0; i < pieces; ++i, to += bytes) {
      std::memcpy(to, column.at(first_slot + i), bytes);
    }
  }
  const auto head = [&](uint32_t kind, std::byte* body, uint64_t bytes) {
    PartHeader header{.kind = kind,
                      .rows = static_cast<uint32_t>(rows),
                      .number = from,
                      .bytes = bytes,
                      .body_crc = crc32c({body, bytes})};
    set_crc(header);
    std::memcpy(body - sizeof header, &header, sizeof header);
  };
  head(kRows, known, known_bytes);
  head(kColumns, columns, column_bytes);
  file_.append(run_);
  bytes_written_ += run_.size();
}

void RowWriter::remove_older(uint64_t oldest) {
  while (files_.size() > 1 && files_[1].first <= oldest) {
    remove_file(files_.front().path);
    files_.pop_front();
  }
}

void RowWriter::remove_all() {
  file_.close();
  for (; !files_.empty(); files_.pop_front()) remove_file(files_.front().path);
}

RowReader::RowReader(const Path& folder, uint64_t lineage, uint32_t table) {
  for (const Path& path : row_files(folder, table)) {
    files_.push_back(File::open(path));
    damage_.emplace_back();
    std::vector<std::byte> head(sizeof(FileHeader));
    head.resize(files_.back().read(0, head));
    bool ok = false;
    const FileHeader header = read_header(head, FileKind::rows, lineage, ok);
    if (ok && header.name == table) {
      scan(files_.size() - 1);
    } else {
      damage_.back() = path.filename().string() + ": it does not begin as a file of rows";
    }
    close_without_runs(files_.size() - 1);
  }
}

void RowReader::scan(size_t index) {
  const File& file = files_[index];
  uint64_t offset = sizeof(FileHeader);
  while (offset < file.bytes()) {
    Run run{};
    if (!read_run(index, offset, run)) return;
    const uint64_t bytes = 2 * sizeof(PartHeader) + run.rows.bytes + run.columns.bytes;
    if (offset == sizeof(FileHeader)) {  // nearly all runs of a file have one size
      for (uint64_t next = offset + bytes; next < file.bytes(); next += bytes) {
        file.expect(next, 2 * sizeof(PartHeader) + run.rows.bytes);
      }
    }
    add(run);
    offset += bytes;
  }
}

// The two headers that stand there. False where they do not, and notes that.
bool RowReader::read_run(size_t index, uint64_t offset, Run& run) {
  const File& file = files_[index];
  run.file = index;
  run.offset = offset;
  const auto damaged = [&](uint64_t at, const char* how) {
    damage_[index] = file.path().filename().string() + ", byte " + std::to_string(at) + how;
    return false;
  };
  const auto read = [&](uint64_t at, uint32_t kind, PartHeader& header) {
    const size_t got = file.read(at, std::as_writable_bytes(std::span(&header, 1)));
    if (got != sizeof header || !intact(header) || header.kind != kind) {
      return damaged(at, ": no part begins there");
    }
    if (header.bytes > file.bytes() - at - sizeof header) {
      return damaged(at, ": the file ends too early");
    }
    return true;
  };
  const auto columns_at = [&] { return offset + sizeof(PartHeader) + run.rows.bytes; };
  if (!read(offset, kRows, run.rows) || !read(columns_at(), kColumns, run.columns)) return false;
  run.first = run.rows.number;
  run.end = run.first + run.rows.rows;
  const bool one = run.columns.number == run.first && run.columns.rows == run.rows.rows;
  return (one && run.end >= run.first) || damaged(columns_at(), ": no part begins there");
}

// There may be more files than a process may have open. Later files have later runs.
void RowReader::close_without_runs(size_t file) {
  if (runs_.empty() || runs_.back().file != file) files_[file].close();
}

// Numbers only grow within a life of the server: a smaller one begins the next life's rows.
void RowReader::add(const Run& run) {
  while (!runs_.empty() && runs_.back().first >= run.first) {
    const size_t file = runs_.back().file;
    runs_.pop_back();
    if (file != run.file) close_without_runs(file);
  }
  if (!runs_.empty()) runs_.back().end = std::min(runs_.back().end, run.first);
  runs_.push_back(run);
}

std::optional<RowReader::Gap> RowReader::load(Ring& ring, uint64_t from, uint64_t to,
                                              ReadProgress& progress) {
  std::optional<Gap> gap;
  uint64_t next = from;
  row_bytes_ = column_bytes_of(ring);
  const auto missing = [&](uint64_t end, std::string why) {
    if (next < end) gap = Gap{next, end, std::move(why)};
    next = std::max(next, end);
  };
  const auto reason = [&](size_t file) {
    for (size_t i = std::min(file + 1, files_.size()); i-- > 0;) {
      if (!damage_[i].empty()) return damage_[i];
    }
    return std::string("a file of its rows is missing");
  };
  for (const Run& run : runs_) {
    progress.add(run.rows.bytes + run.columns.bytes);
    if (run.end <= next || run.first >= to) continue;
    missing(run.first, reason(run.file));
    const uint64_t end = std::min(run.end, to);
    if (run.rows.bytes != run.rows.rows * sizeof(SavedRow) ||
        run.columns.bytes != run.columns.rows * row_bytes_) {
      missing(end, place_of(run) + ": rows of another table");
    } else if (!load(run, ring, next, end)) {
      missing(end, place_of(run) + ": its checksum is wrong");
    }
    next = end;
  }
  if (next < to) missing(to, reason(files_.size()));
  columns_from_ = gap ? gap->end : from;
  columns_to_ = to;
  columns_before_ = runs_.size();
  for (size_t i = 0; i < kRunsAhead; ++i) expect_columns(i);
  return gap;
}

std::string RowReader::place_of(const Run& run) const {
  return files_[run.file].path().filename().string() + ", byte " + std::to_string(run.offset);
}

// False: they are not what was written.
bool RowReader::load(const Run& run, Ring& ring, uint64_t from, uint64_t to) {
  body_.resize(run.rows.bytes);
  if (files_[run.file].read(run.offset + sizeof(PartHeader), body_) != body_.size() ||
      crc32c(body_) != run.rows.body_crc) {
    return false;
  }
  for (uint64_t number = from; number < to; ++number) {
    SavedRow saved;
    std::memcpy(&saved, body_.data() + (number - run.rows.number) * sizeof saved, sizeof saved);
    ring.row(ring.place(number).slot) = {.step = saved.step,
                                         .ordinal = saved.ordinal,
                                         .previous = kNoSlot,
                                         .next = kNoSlot,
                                         .since_first = saved.since_first,
                                         .priority = 0,
                                         .flags = static_cast<uint8_t>(saved.flags),
                                         .state = ItemState::none,
                                         .draws = 0};
  }
  return true;
}

// Those that come that many runs behind the next ones.
void RowReader::expect_columns(size_t behind) const {
  if (behind >= columns_before_) return;
  const Run& run = runs_[columns_before_ - 1 - behind];
  if (has_columns(run)) files_[run.file].expect(columns_at(run), run.columns.bytes);
}

uint64_t RowReader::columns_at(const Run& run) {
  return run.offset + 2 * sizeof(PartHeader) + run.rows.bytes;
}

bool RowReader::next_columns(ReadColumns& columns) {
  while (columns_before_ > 0 && !has_columns(runs_[columns_before_ - 1])) --columns_before_;
  if (columns_before_ == 0) return false;
  expect_columns(kRunsAhead);
  const Run& run = runs_[--columns_before_];
  columns.first = std::max(run.first, columns_from_);
  columns.end = std::min(run.end, columns_to_);
  columns.run_first = run.rows.number;
  columns.run_rows = run.rows.rows;
  columns.damage.clear();
  columns.bytes.resize(run.columns.bytes);
  try {
    const bool whole =
        files_[run.file].read(columns_at(run), columns.bytes) == columns.bytes.size();
    if (!whole || crc32c(columns.bytes) != run.columns.body_crc) {
      columns.damage = place_of(run) + ": its checksum is wrong";
    }
  } catch (const Error& error) {  // the disk does not give them
    columns.damage = error.cause();
  }
  return true;
}

void RowReader::place(const ReadColumns& columns, uint64_t from, Ring& ring) {
  from = std::max(from, columns.first);
  if (from >= columns.end) return;
  const std::byte* at = columns.bytes.data();
  for (size_t c = 0; c < ring.columns(); ++c) {
    const RowColumn& column = ring.column(c);
    const std::byte* source = at + (from - columns.run_first) * column.row_bytes;
    for (uint64_t number = from; number < columns.end; ++number, source += column.row_bytes) {
      std::memcpy(column.at(ring.place(number).slot), source, column.row_bytes);
    }
    at += uint64_t{columns.run_rows} * column.row_bytes;
  }
}

}  // namespace drlnet
