#include "client/batch_layout.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace drlnet {

BatchLayout::BatchLayout(const TableSpec& spec, uint32_t n)
    : reply_(spec), n_(n), horizon_(spec.item.horizon()), views_(reply_.views().size()) {
  uint64_t shift = 0;  // of what follows, by what lies twice before it
  for (size_t i = 0; i < reply_.windows().size(); ++i) add_window(i, shift);
  memory_bytes_ = reply_.total_bytes(n) + shift;
}

void BatchLayout::add_window(size_t index, uint64_t& shift) {
  const Window& window = reply_.windows()[index];
  const auto rows = static_cast<uint32_t>(window.rows());
  uint32_t shared_end = 0, first = rows, end = 0;  // of views that stay, and of those that move
  for (const ViewPlace& view : reply_.views()) {
    if (view.window != index) continue;
    if (view.shift_at_client) {
      first = std::min(first, view.first);
      end = std::max(end, view.first + view.rows);
    } else {
      shared_end = std::max(shared_end, view.first + view.rows);
    }
  }
  const uint32_t doubled = shared_end - std::min(shared_end, first);
  const uint64_t begin = reply_.window(n_, index), row_bytes = window.row_bytes;
  const uint64_t item_bytes = (rows + doubled) * row_bytes;
  for (size_t v = 0; v < views_.size(); ++v) {
    const ViewPlace& view = reply_.views()[v];
    if (view.window != index) continue;
    const uint64_t row = view.first + (view.shift_at_client ? doubled : 0);
    views_[v] = {begin + shift + row * row_bytes, item_bytes};
  }
  windows_.push_back({begin + shift, item_bytes, shared_end * row_bytes, doubled * row_bytes});
  if (end == 0) return;  // none moves
  apart_.push_back({begin + shift, item_bytes, row_bytes, first + doubled, end - first, doubled});
  if (doubled == 0) return;
  repeats_.push_back(
      {begin + shared_end * row_bytes, window.item_bytes(), n_, doubled * row_bytes});
  shift += n_ * doubled * row_bytes;
  // What follows begins at a multiple of 64 again.
  const uint64_t rest = SampleLayout::align64(shift) - shift;
  if (rest == 0 || index + 1 == reply_.windows().size()) return;
  repeats_.push_back({reply_.window(n_, index + 1), 1, 1, rest});
  shift += rest;
}

void BatchLayout::add_part(std::span<std::byte> memory, uint32_t first, uint32_t rows,
                           Places& places) const {
  const auto add = [&](uint64_t from, uint64_t to, uint64_t item_bytes, Repeat repeat = {}) {
    const auto part = memory.subspan(to + first * item_bytes, rows * item_bytes);
    places.runs.push_back({from, part, repeat});
  };
  add(reply_.keys(rows), reply_.keys(n_), sizeof(uint64_t));
  add(reply_.probabilities(rows), reply_.probabilities(n_), sizeof(float));
  add(reply_.lengths(rows), reply_.lengths(n_), sizeof(uint32_t));
  for (size_t i = 0; i < windows_.size(); ++i) {
    const Place& place = windows_[i];
    const uint64_t count = place.doubled_bytes == 0 ? 0 : rows;
    add(reply_.window(rows, i), place.offset, place.item_bytes,
        {place.first_bytes, reply_.windows()[i].item_bytes(), count, place.doubled_bytes});
  }
}

void BatchLayout::align_views(std::span<std::byte> memory) const {
  DRLNET_ASSERT(memory.size() >= memory_bytes_);
  const std::byte* lengths = memory.data() + reply_.lengths(n_);
  for (const Apart& apart : apart_) {
    for (uint32_t i = 0; i < n_; ++i) {
      uint32_t length;
      std::memcpy(&length, lengths + 4 * i, sizeof length);
      if (length == 0 || length >= horizon_) continue;
      const uint32_t early = horizon_ - length;
      std::byte* item = memory.data() + apart.window + i * apart.item_bytes;
      // From behind: a row comes from before its place, or from those that stay.
      for (uint32_t row = apart.rows; row-- > 0;) {
        const uint32_t place = apart.first + row;
        uint32_t from = place - apart.doubled - early;  // in the reply
        if (from >= apart.first) from += apart.doubled;
        std::memcpy(item + place * apart.row_bytes, item + from * apart.row_bytes, apart.row_bytes);
      }
    }
  }
}

}  // namespace drlnet
