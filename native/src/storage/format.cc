#include "storage/format.h"

#include <cmath>
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"
#include "wire/codec.h"

namespace drlnet {
namespace {

constexpr uint64_t kMostParts = uint64_t{1} << 40;  // bytes of one

template <typename Header>
uint32_t crc_of(const Header& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(sizeof header - sizeof header.crc));
}

bool possible(const SavedTable& table) {
  const TableCounters& counters = table.state.counters;
  if (counters.oldest > counters.head || counters.head - counters.oldest > counters.slots) {
    return false;
  }
  if (counters.slots == 0 || counters.slots > ring_slots(table.asked)) return false;
  if (!std::isfinite(counters.maximum_priority) || counters.maximum_priority < 0) return false;
  for (const SavedItem& item : table.state.items) {
    if (item.slot >= counters.slots || item.state > ItemState::retired) return false;
    if (!std::isfinite(item.priority) || item.priority < 0) return false;
    const uint32_t most = table.asked.limiter.max_times_sampled;
    if (item.draws > most || (item.state == ItemState::live && most > 0 && item.draws == most)) {
      return false;
    }
  }
  return true;
}

template <typename Record>
bool read_records(ByteReader& reader, std::vector<Record>& records) {
  const auto count = reader.get<uint64_t>();
  if (count > kMostParts / sizeof(Record)) return false;
  const auto bytes = reader.take(count * sizeof(Record));
  if (!reader.ok()) return false;
  records.resize(count);
  if (!bytes.empty()) std::memcpy(records.data(), bytes.data(), bytes.size());
  return true;
}

template <typename Record>
void write_records(ByteWriter& writer, const std::vector<Record>& records) {
  writer.put(static_cast<uint64_t>(records.size()));
  writer.raw(std::as_bytes(std::span(records)));
}

bool read_table(ByteReader& reader, SavedTable& table) {
  table.number = reader.get<uint32_t>();
  const auto spec = reader.take(reader.get<uint32_t>());
  if (!reader.ok() || !decode(spec, table.asked)) return false;
  try {
    check(table.asked);
  } catch (const Error&) {
    return false;
  }
  table.state.counters = reader.get<TableCounters>();
  return read_records(reader, table.state.streams) && read_records(reader, table.state.items) &&
         possible(table);
}

}  // namespace

template <typename Header>
void set_crc(Header& header) {
  header.crc = crc_of(header);
}
template <typename Header>
bool intact(const Header& header) {
  return header.crc == crc_of(header);
}
template void set_crc(FileHeader&);
template void set_crc(PartHeader&);
template bool intact(const FileHeader&);
template bool intact(const PartHeader&);

void encode(const SavedState& state, Bytes& out) {
  ByteWriter writer(out);
  writer.put(state.sequence);
  writer.put(state.params_version);
  writer.put(state.blobs_version);
  writer.put(state.next_table);
  writer.put(static_cast<uint32_t>(state.dropped.size()));
  for (const auto& [number, name] : state.dropped) {
    writer.put(number);
    writer.text(name);
  }
  writer.put(static_cast<uint32_t>(state.tables.size()));
  Bytes spec;
  for (const SavedTable& table : state.tables) {
    spec.clear();
    encode(table.asked, spec);
    writer.put(table.number);
    writer.put(static_cast<uint32_t>(spec.size()));
    writer.raw(spec);
    writer.put(table.state.counters);
    write_records(writer, table.state.streams);
    write_records(writer, table.state.items);
  }
  writer.put(static_cast<uint32_t>(state.blobs.size()));
  for (const SavedBlob& blob : state.blobs) {
    writer.put(blob.version);
    writer.text(blob.name);
    writer.put(static_cast<uint32_t>(blob.bytes.size()));
    writer.raw(blob.bytes);
  }
}

bool decode(std::span<const std::byte> bytes, SavedState& state) {
  state = {};
  ByteReader reader(bytes);
  state.sequence = reader.get<uint64_t>();
  state.params_version = reader.get<uint64_t>();
  state.blobs_version = reader.get<uint64_t>();
  state.next_table = reader.get<uint32_t>();
  const auto dropped = reader.get<uint32_t>();
  for (uint32_t i = 0; i < dropped && reader.ok(); ++i) {
    const auto number = reader.get<uint32_t>();
    state.dropped.emplace_back(number, reader.text());
  }
  const auto tables = reader.get<uint32_t>();
  for (uint32_t i = 0; i < tables && reader.ok(); ++i) {
    if (!read_table(reader, state.tables.emplace_back())) return false;
    if (state.tables.back().number >= state.next_table) return false;
    if (i > 0 && state.tables[i - 1].number >= state.tables[i].number) return false;
  }
  const auto blobs = reader.get<uint32_t>();
  for (uint32_t i = 0; i < blobs && reader.ok(); ++i) {
    SavedBlob& blob = state.blobs.emplace_back();
    blob.version = reader.get<uint64_t>();
    blob.name = reader.text();
    const auto of_it = reader.take(reader.get<uint32_t>());
    blob.bytes.assign(of_it.begin(), of_it.end());
  }
  return reader.finished();
}

FileHeader read_header(std::span<const std::byte> file, FileKind kind, uint64_t lineage, bool& ok) {
  FileHeader header;
  ok = file.size() >= sizeof header;
  if (!ok) return header;
  std::memcpy(&header, file.data(), sizeof header);
  ok = intact(header) && header.kind == kind && header.version == kStateVersion &&
       (lineage == 0 || header.lineage == lineage);
  return header;
}

PartReader::PartReader(std::span<const std::byte> file, FileKind kind, uint64_t lineage)
    : file_(file) {
  header_ = read_header(file, kind, lineage, ok_);
  at_ = sizeof header_;
}

std::optional<PartReader::Part> PartReader::next() {
  if (!ok_ || at_ >= file_.size() || damaged_ || cut_short_) return std::nullopt;
  Part part;
  const auto left = file_.subspan(at_);
  if (left.size() < sizeof part.header) {
    cut_short_ = true;
    return std::nullopt;
  }
  std::memcpy(&part.header, left.data(), sizeof part.header);
  if (!intact(part.header)) {
    damaged_ = true;
    return std::nullopt;
  }
  if (part.header.bytes > left.size() - sizeof part.header) {
    cut_short_ = true;
    return std::nullopt;
  }
  part.body = left.subspan(sizeof part.header, part.header.bytes);
  if (crc32c(part.body) != part.header.body_crc) {
    damaged_ = true;
    return std::nullopt;
  }
  at_ += sizeof part.header + part.header.bytes;
  return part;
}

void append_part(PartHeader header, std::span<const std::byte> body, Bytes& out) {
  header.bytes = body.size();
  header.body_crc = crc32c(body);
  set_crc(header);
  ByteWriter writer(out);
  writer.put(header);
  writer.raw(body);
}

}  // namespace drlnet
