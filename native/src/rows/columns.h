// Where the rows of a ring lie, at the server and in a client's mirror of it. Threading: immutable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "spec/table_spec.h"

namespace drlnet {

constexpr uint32_t kNoSlot = 0xFFFFFFFF;

// Where the rows of one column lie.
struct RowColumn {
  std::byte* first;
  uint64_t row_bytes, stride;

  std::byte* at(uint64_t slot) const { return first + slot * stride; }
  bool together() const { return stride == row_bytes; }  // neighbours touch
};

// Slots of a table's ring: its capacity, and a reserve behind it for what was drawn while its rows
// were held. Replies under way take no more the larger a table is.
inline uint64_t ring_slots(const TableSpec& spec) {
  constexpr uint64_t kReserveMin = 1024, kReserveMax = 32'768;
  const uint64_t window = spec.item.window();
  return spec.capacity +
         std::max(std::clamp(spec.capacity / 16, kReserveMin, kReserveMax), 2 * window);
}

}  // namespace drlnet
