// Builds appends for tests, as a writer would.
#pragma once

#include <cstring>
#include <vector>

#include "replay/table.h"

namespace drlnet::test {

class Request {
 public:
  explicit Request(const TableSpec& spec) : spec_(spec), columns_(spec.columns.size()) {}

  void segment(const Lease& lease, uint64_t first_step) {
    segments_.push_back({lease.ordinal, lease.epoch, lease.token, first_step, 0, 0});
  }
  // bytes: the row's columns one after the other.
  void row(uint8_t flags, const std::vector<std::byte>& bytes) {
    ++segments_.back().rows;
    flags_.push_back(flags);
    size_t offset = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const auto* begin = bytes.data() + offset;
      columns_[c].insert(columns_[c].end(), begin, begin + spec_.columns[c].bytes());
      offset += spec_.columns[c].bytes();
    }
  }
  void item(const Lease& lease, uint64_t step, float priority, uint32_t flags = 0) {
    items_.push_back({lease.ordinal, lease.epoch, step, priority, flags});
  }

  Status send(Table& table, AppendResult& result) const {
    std::vector<std::span<const std::byte>> columns = this->columns();
    return table.append({segments_, flags_, columns, items_}, result);
  }
  std::vector<std::span<const std::byte>> columns() const {
    return {columns_.begin(), columns_.end()};
  }
  Status send(Table& table) const {
    AppendResult result;
    return send(table, result);
  }

  std::vector<AppendSegment> segments_;
  std::vector<uint8_t> flags_;
  std::vector<AppendItem> items_;

 private:
  TableSpec spec_;
  std::vector<std::vector<std::byte>> columns_;
};

inline std::vector<std::byte> filled(const TableSpec& spec, uint64_t value) {
  std::vector<std::byte> bytes(spec.row_bytes());
  Random random(value);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return bytes;
}

}  // namespace drlnet::test
