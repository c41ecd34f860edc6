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
// were held. Replies under way take no more the larger a table is. A queue's reserve is for rows
// that move: those of a batch, and what streams have begun, which is half of the ring at most.
inline uint64_t ring_slots(const TableSpec& spec) {
  constexpr uint64_t kReserveMin = 1024, kReserveMax = 32'768;
  const uint64_t window = spec.item.window();
  const bool queue = spec.limiter.max_times_sampled > 0;
  const uint64_t share = std::clamp(spec.capacity / (queue ? 2 : 16), kReserveMin, kReserveMax);
  const uint64_t batch = queue ? spec.limiter.batch * window : 0;
  return spec.capacity + std::max(share, 2 * window) + batch;
}

}  // namespace drlnet
