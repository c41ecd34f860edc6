#include "storage/row_files.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/crc32c.h"

namespace drlnet {
namespace {

constexpr uint64_t kPartBytes = 1 << 20;
constexpr uint64_t kUnknown = ~uint64_t{0};  // where a file begins
constexpr size_t kPartsAhead = 32;           // that the disk reads while one is taken in
constexpr uint64_t kMinFileBytes = 1 << 20, kMaxFileBytes = 256 << 20;

std::string prefix_of(uint32_t table) {
  char name[32];
  std::snprintf(name, sizeof name, "rows-%05u-", table);
  return name;
}

uint64_t row_bytes_of(const Ring& ring) {
  uint64_t bytes = sizeof(SavedRow);
  for (size_t c = 0; c < ring.columns(); ++c) bytes += ring.column(c).row_bytes;
  return bytes;
}

}  // namespace

std::vector<Path> row_files(const Path& folder, uint32_t table) {
  std::vector<Path> files;
  for (const Path& path : list_folder(folder)) {
    if (path.filename().string().starts_with(prefix_of(table))) files.push_back(path);
  }
  return files;
}

RowWriter::RowWriter(const Path& folder, uint64_t lineage, uint32_t table)
    : folder_(folder), lineage_(lineage), table_(table) {
  for (const Path& path : row_files(folder, table)) {
    std::vector<std::byte> head(sizeof(FileHeader));
    head.resize(File::open(path).read(0, head));
    bool ok = false;
    const FileHeader header = read_header(head, FileKind::rows, lineage, ok);
    add(path, ok ? header.first : kUnknown);
    const std::string name = path.filename().string();
    next_file_ = std::stoull("0" + name.substr(prefix_of(table).size())) + 1;
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
                    .row_bytes = static_cast<uint32_t>(row_bytes_of(ring))};
  set_crc(header);
  file_.append(std::as_bytes(std::span(&header, 1)));
}

void RowWriter::write(const Ring& ring, uint64_t from, uint64_t to) {
  const uint64_t row_bytes = row_bytes_of(ring);
  const uint64_t file_bytes =
      std::clamp(ring.capacity() * row_bytes / 16, kMinFileBytes, kMaxFileBytes);
  const uint64_t most = std::max<uint64_t>(kPartBytes / row_bytes, 1);
  try {
    while (from < to) {
      if (!file_.is_open()) begin_file(ring, from);
      const uint64_t slot = from % ring.size();
      const uint64_t rows = std::min({to - from, most, ring.size() - slot});
      write_part(ring, from, rows);
      from += rows;
      if (file_.bytes() < file_bytes) continue;
      file_.sync();
      file_.close();
    }
    if (file_.is_open()) file_.sync();
  } catch (...) {
    file_.close();
    throw;
  }
}

void RowWriter::write_part(const Ring& ring, uint64_t from, uint64_t rows) {
  const auto first_slot = static_cast<uint32_t>(from % ring.size());
  part_.resize(rows * row_bytes_of(ring));
  std::byte* to = part_.data();
  for (uint32_t i = 0; i < rows; ++i, to += sizeof(SavedRow)) {
    const Row& row = ring.row(first_slot + i);
    const SavedRow saved{row.step, row.ordinal, row.since_first, row.flags};
    std::memcpy(to, &saved, sizeof saved);
  }
  for (size_t c = 0; c < ring.columns(); ++c) {
    const RowColumn& column = ring.column(c);
    const uint64_t pieces = column.together() ? 1 : rows;
    const uint64_t bytes = rows / pieces * column.row_bytes;
    for (uint64_t i = 0; i < pieces; ++i, to += bytes) {
      std::memcpy(to, column.at(first_slot + i), bytes);
    }
  }
  PartHeader header{.kind = kRows,
                    .rows = static_cast<uint32_t>(rows),
                    .number = from,
                    .bytes = part_.size(),
                    .body_crc = crc32c(part_)};
  set_crc(header);
  file_.append(std::as_bytes(std::span(&header, 1)));
  file_.append(part_);
  bytes_written_ += sizeof header + part_.size();
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
  }
}

void RowReader::scan(size_t index) {
  const File& file = files_[index];
  uint64_t offset = sizeof(FileHeader);
  while (offset < file.bytes()) {
    PartHeader header;
    const size_t got = file.read(offset, std::as_writable_bytes(std::span(&header, 1)));
    const bool whole = got == sizeof header && intact(header) && header.kind == kRows;
    if (!whole || header.bytes > file.bytes() - offset - sizeof header ||
        header.number + header.rows < header.number) {
      damage_[index] = file.path().filename().string() + ", byte " + std::to_string(offset) +
                       (whole ? ": the file ends too early" : ": no part begins there");
      return;
    }
    const uint64_t bytes = sizeof header + header.bytes;
    if (offset == sizeof(FileHeader)) {  // nearly all parts of a file have one size
      for (uint64_t next = offset + bytes; next < file.bytes(); next += bytes) {
        file.expect(next, sizeof header);
      }
    }
    add({header.number, header.number + header.rows, index, offset, header});
    offset += bytes;
  }
}

// Numbers only grow within a life of the server: a smaller one begins the next life's rows.
void RowReader::add(const Part& part) {
  while (!parts_.empty() && parts_.back().first >= part.first) parts_.pop_back();
  if (!parts_.empty()) parts_.back().end = std::min(parts_.back().end, part.first);
  parts_.push_back(part);
}

std::optional<RowReader::Gap> RowReader::load(Ring& ring, uint64_t from, uint64_t to,
                                              ReadProgress& progress) const {
  std::optional<Gap> gap;
  uint64_t next = from;
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
  const auto expect = [&](size_t part) {
    if (part < parts_.size()) files_[parts_[part].file].expect(parts_[part].offset, kPartBytes);
  };
  for (size_t i = 0; i < kPartsAhead; ++i) expect(i);
  for (const Part& part : parts_) {
    expect(static_cast<size_t>(&part - parts_.data()) + kPartsAhead);
    progress.add(part.header.bytes);
    if (part.end <= next || part.first >= to) continue;
    missing(part.first, reason(part.file));
    const uint64_t end = std::min(part.end, to);
    std::string why = load(part, ring, next, end);
    if (!why.empty()) {
      missing(end, std::move(why));
    }
    next = end;
  }
  if (next < to) missing(to, reason(files_.size()));
  return gap;
}

// What is wrong with it, or nothing.
std::string RowReader::load(const Part& part, Ring& ring, uint64_t from, uint64_t to) const {
  const File& file = files_[part.file];
  const uint64_t row_bytes = row_bytes_of(ring);
  const auto here = [&] {
    return file.path().filename().string() + ", byte " + std::to_string(part.offset);
  };
  if (part.header.bytes != part.header.rows * row_bytes) return here() + ": rows of another table";
  body_.resize(part.header.bytes);
  if (file.read(part.offset + sizeof(PartHeader), body_) != body_.size() ||
      crc32c(body_) != part.header.body_crc) {
    return here() + ": its checksum is wrong";
  }
  const uint64_t skipped = from - part.header.number;
  const std::byte* rows = body_.data();
  for (uint64_t number = from; number < to; ++number) {
    SavedRow saved;
    std::memcpy(&saved, rows + (number - part.header.number) * sizeof saved, sizeof saved);
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
  const std::byte* at = rows + part.header.rows * sizeof(SavedRow);
  for (size_t c = 0; c < ring.columns(); ++c) {
    const RowColumn& column = ring.column(c);
    const std::byte* source = at + skipped * column.row_bytes;
    for (uint64_t number = from; number < to; ++number, source += column.row_bytes) {
      std::memcpy(column.at(ring.place(number).slot), source, column.row_bytes);
    }
    at += part.header.rows * column.row_bytes;
  }
  return {};
}

}  // namespace drlnet
