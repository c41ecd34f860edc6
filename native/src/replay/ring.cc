#include "replay/ring.h"

#include <bit>
#include <numeric>

namespace drlnet {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLine = 64;

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

struct Ring::Layout {
  uint64_t record_bytes, total_bytes, row_slots;
  struct Place {
    uint64_t offset, stride;
  };
  std::vector<Place> columns;
};

Ring::Layout Ring::layout_of(const TableSpec& spec, bool index_only) {
  std::vector<size_t> order(spec.columns.size());  // the shortest first
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return spec.columns[i].bytes(); });
  uint64_t record_bytes = sizeof(Row);
  auto own = order.begin();  // the first that gets an array of its own
  for (; !index_only && own != order.end() && record_bytes + spec.columns[*own].bytes() <= kLine;
       ++own) {
    record_bytes += spec.columns[*own].bytes();
  }
  if (own != order.begin()) record_bytes = kLine;

  const uint64_t slots = ring_slots(spec);
  Layout layout{record_bytes, 0, index_only ? slots - spec.capacity : slots, {}};
  layout.columns.resize(order.size());
  uint64_t within = sizeof(Row);  // the longest of them first: aligned as their elements want it
  for (auto column = own; column != order.begin();) {
    layout.columns[*--column] = {within, record_bytes};
    within += spec.columns[*column].bytes();
  }
  layout.total_bytes = whole_pages(slots * record_bytes);
  for (; own != order.end(); ++own) {
    const uint64_t bytes = spec.columns[*own].bytes();
    layout.columns[*own] = {layout.total_bytes, bytes};
    layout.total_bytes += whole_pages(layout.row_slots * bytes);
  }
  return layout;
}

uint64_t Ring::memory_bytes(const TableSpec& spec, bool index_only) {
  return layout_of(spec, index_only).total_bytes;
}

Ring::Ring(const TableSpec& spec, bool index_only) : Ring(spec, layout_of(spec, index_only)) {}

Ring::Ring(const TableSpec& spec, const Layout& layout)
    : capacity_(spec.capacity),
      size_(static_cast<uint32_t>(ring_slots(spec))),
      row_slots_(static_cast<uint32_t>(layout.row_slots)),
      record_shift_(static_cast<uint32_t>(std::countr_zero(layout.record_bytes))),
      memory_(layout.total_bytes) {
  for (size_t i = 0; i < spec.columns.size(); ++i) {
    const auto [offset, stride] = layout.columns[i];
    columns_.push_back({memory_.data() + offset, spec.columns[i].bytes(), stride});
  }
}

}  // namespace drlnet
