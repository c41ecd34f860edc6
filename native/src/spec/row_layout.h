// Where each byte of a run of rows lies: a follow reply, and what a mirror takes from it.
//
//   FollowHeader | column 0 [count] | column 1 [count] | ...
//
// Columns stand in TableSpec order and start at multiples of 64 bytes; the bytes between are zero.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/sample_layout.h"
#include "spec/table_spec.h"

namespace drlnet {

struct FollowHeader {
  uint64_t first;  // key of the first row; rows between the one asked for and this are gone
  uint64_t head;   // key of the row to come
  uint32_t count;  // of the rows that follow
  uint32_t reserved[11];
};
static_assert(sizeof(FollowHeader) == 64);

class RowLayout {
 public:
  explicit RowLayout(const TableSpec& spec) {
    for (const ColumnSpec& column : spec.columns) row_bytes_.push_back(column.bytes());
  }

  size_t columns() const { return row_bytes_.size(); }
  uint64_t row_bytes(size_t column) const { return row_bytes_[column]; }
  // Offset in bytes of a column of `count` rows.
  uint64_t column(uint64_t count, size_t index) const {
    uint64_t offset = sizeof(FollowHeader);
    for (size_t i = 0; i < index; ++i) {
      offset = SampleLayout::align64(offset + count * row_bytes_[i]);
    }
    return offset;
  }
  uint64_t total_bytes(uint64_t count) const { return column(count, columns()); }

 private:
  std::vector<uint64_t> row_bytes_;
};

}  // namespace drlnet
