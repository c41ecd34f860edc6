// The rows as they came, for clients that mirror them.
#include <algorithm>
#include <cstring>

#include "replay/table.h"
#include "rows/row_copy.h"

namespace drlnet {

std::optional<FollowHeader> Table::follow(uint64_t key, uint32_t most) const {
  // 0: a client that has none.
  const uint64_t asked = key == 0 ? 0 : key - key_base_;
  // A follower of an earlier life of the server: it begins anew.
  const bool former = asked > ring_.head() && restored_;
  if (asked > ring_.head() && !former) return std::nullopt;
  const bool there = !former && (asked == ring_.head() || ring_.has_row(asked));
  if (key != 0 && !there && index_only()) return std::nullopt;
  const uint64_t newest = ring_.head() - std::min<uint64_t>(ring_.head(), ring_.row_slots());
  const uint64_t first = there && key != 0 ? asked : std::max(ring_.oldest(), newest);
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(ring_.head() - first, most));
  return FollowHeader{key_base_ + first, key_base_ + ring_.head(), count, {}};
}

std::optional<FollowHeader> Table::follow_back(uint64_t key, uint32_t most) const {
  const uint64_t asked = key == 0 ? ring_.head() : key - key_base_;
  if (asked > ring_.head()) return std::nullopt;
  const uint64_t newest = ring_.head() - std::min<uint64_t>(ring_.head(), ring_.row_slots());
  const uint64_t oldest = std::min(asked, std::max(ring_.oldest(), newest));
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(asked - oldest, most));
  return FollowHeader{key_base_ + asked - count, key_base_ + ring_.head(), count, {}};
}

bool Table::gather_rows(const FollowHeader& run, uint64_t offset, std::span<std::byte> out,
                        Loans* loans) const {
  const uint64_t number = run.first - key_base_;
  if (run.count > 0 && !ring_.has_row(number)) return false;
  const uint32_t first = ring_.row_slot(number);
  const uint64_t end = offset + out.size();
  // Calls fill(bytes of the section before it, place) for the part of `out` within it.
  const auto part = [&](uint64_t begin, uint64_t bytes, auto fill) {
    const uint64_t from = std::max(offset, begin), to = std::min(end, begin + bytes);
    if (from < to) fill(from - begin, out.subspan(from - offset, to - from));
  };
  const RowSink sink{.loans = loans};
  part(0, sizeof run, [&](uint64_t from, std::span<std::byte> to) {
    std::memcpy(to.data(), reinterpret_cast<const std::byte*>(&run) + from, to.size());
  });
  for (size_t c = 0; c < row_layout_.columns(); ++c) {
    const RowColumn& column = ring_.column(c);
    const uint64_t row_bytes = column.row_bytes, begin = row_layout_.column(run.count, c);
    part(begin, run.count * row_bytes, [&](uint64_t from, std::span<std::byte> to) {
      uint64_t row = from / row_bytes, skip = from % row_bytes;
      while (!to.empty()) {
        const uint64_t slot = (first + row) % ring_.row_slots();
        // Rows that lie together go together.
        const uint64_t rows = column.together() ? ring_.row_slots() - slot : 1;
        const size_t bytes = std::min<uint64_t>(rows * row_bytes - skip, to.size());
        copy_row(to.data(), column.at(slot) + skip, bytes, sink);
        to = to.subspan(bytes);
        row += rows;
        skip = 0;
      }
    });
    const uint64_t filled = begin + run.count * row_bytes;
    part(filled, SampleLayout::align64(filled) - filled,
         [](uint64_t, std::span<std::byte> gap) { std::memset(gap.data(), 0, gap.size()); });
  }
  return true;
}

}  // namespace drlnet
