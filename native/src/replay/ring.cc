#include "replay/ring.h"

namespace drlnet {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

uint64_t Ring::slots(const TableSpec& spec) {
  const uint64_t reserve =
      std::max({spec.capacity / 16, uint64_t{1024}, 2 * static_cast<uint64_t>(spec.item.window())});
  return spec.capacity + reserve;
}

uint64_t Ring::memory_bytes(const TableSpec& spec) {
  uint64_t total = whole_pages(slots(spec) * sizeof(Row));
  for (const ColumnSpec& column : spec.columns) total += whole_pages(slots(spec) * column.bytes());
  return total;
}

Ring::Ring(const TableSpec& spec)
    : capacity_(spec.capacity),
      size_(static_cast<uint32_t>(slots(spec))),
      memory_(memory_bytes(spec)),
      rows_(reinterpret_cast<Row*>(memory_.data())) {
  std::byte* next = memory_.data() + whole_pages(size_ * sizeof(Row));
  for (const ColumnSpec& column : spec.columns) {
    columns_.push_back(next);
    row_bytes_.push_back(column.bytes());
    next += whole_pages(size_ * column.bytes());
  }
}

}  // namespace drlnet
