// What a table should hold, said as plainly as possible: every lease is the list of all rows it
// ever stored, and everything else is worked out from those lists each time it is asked for.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "replay/table.h"

namespace drlnet::test {

enum class Standing { none, pending, live, retired };

struct OracleRow {
  uint8_t flags;
  std::vector<std::byte> bytes;
  uint64_t number;
  bool item = false;
  uint32_t draws = 0;
};

struct OracleLease {
  Lease lease;
  bool ended = false;
  std::vector<OracleRow> rows;
};

class Oracle {
 public:
  explicit Oracle(const TableSpec& spec)
      : spec_(spec), ring_size_(static_cast<int64_t>(ring_slots(spec))) {}

  size_t add(const Lease& lease) {
    leases_.push_back({lease, false, {}});
    return leases_.size() - 1;
  }
  void store(size_t lease, uint8_t flags, const std::vector<std::byte>& bytes) {
    OracleLease& of = leases_[lease];
    by_number_.push_back({lease, of.rows.size()});
    of.rows.push_back({flags, bytes, by_number_.size() - 1});
  }
  // Counts the item where it belongs.
  void add_item(size_t lease, uint64_t step, AppendResult& result) {
    OracleLease& of = leases_[lease];
    if (step >= of.rows.size() || !held(of.rows[step])) {
      ++result.items_refused;
      return;
    }
    OracleRow& row = of.rows[step];
    const auto at = static_cast<int64_t>(step);
    const int64_t counted = stop() ? at - episode_start(of, step) : at;
    const bool known = row.item;
    const bool fits = (!stop() || (row.flags & kLast) == 0) &&
                      static_cast<uint64_t>(counted) % spec_.item.period == 0;
    row.item = known || fits;
    if (!known && fits && standing(lease, step) == Standing::retired) row.item = false;
    ++(known ? result.items_ignored : row.item ? result.items_created : result.items_refused);
  }

  Standing standing(size_t lease, size_t step) const {
    const OracleLease& of = leases_[lease];
    if (!of.rows[step].item) return Standing::none;
    const uint32_t most = spec_.limiter.max_times_sampled;
    if (most > 0 && of.rows[step].draws == most) return Standing::retired;
    for (int64_t r = -static_cast<int64_t>(spec_.item.back()); r <= 0; ++r) {
      const int64_t at = static_cast<int64_t>(step) + r;
      if (at >= start(of, step) && !held(of.rows[static_cast<size_t>(at)])) {
        return Standing::retired;
      }
    }
    if (length(of, step)) return Standing::live;
    if (of.ended) return Standing::retired;
    for (size_t at = step + 1; stop() && at < of.rows.size(); ++at) {
      if ((of.rows[at].flags & kFirst) != 0) return Standing::retired;
    }
    return Standing::pending;
  }

  // The true length of an item, nothing while it is incomplete.
  std::optional<uint32_t> length(const OracleLease& of, size_t step) const {
    for (uint32_t m = 0;; ++m) {
      if (m == spec_.item.horizon()) return m;
      if (stop() && m > 0 && (of.rows[step + m].flags & kLast) != 0) return m;
      if (step + m + 1 >= of.rows.size()) return std::nullopt;
      if (stop() && (of.rows[step + m + 1].flags & kFirst) != 0) return std::nullopt;
    }
  }

  // What a view of the item shows. lowest: the first row it needs, by number.
  std::vector<std::byte> view(const OracleLease& of, size_t step, const ViewSpec& view,
                              uint64_t& lowest) const {
    const auto m = static_cast<int64_t>(*length(of, step));
    const auto n = static_cast<int64_t>(spec_.item.horizon());
    const int64_t shift = view.align == Align::end ? n - m : 0;
    size_t offset = 0;
    for (size_t c = 0; c < view.column; ++c) offset += spec_.columns[c].bytes();
    const size_t bytes = spec_.columns[view.column].bytes();
    std::vector<std::byte> shown;
    for (int64_t r = view.lo - shift; r <= view.hi - shift; ++r) {
      const int64_t earliest = start(of, step) - static_cast<int64_t>(step);
      const bool outside = r < earliest || r > m;
      if (outside && view.pad == Pad::zero) {
        shown.resize(shown.size() + bytes);
        continue;
      }
      const int64_t at = static_cast<int64_t>(step) + std::clamp(r, earliest, m);
      const OracleRow& row = of.rows[static_cast<size_t>(at)];
      lowest = std::min(lowest, row.number);
      shown.insert(shown.end(), row.bytes.begin() + static_cast<ptrdiff_t>(offset),
                   row.bytes.begin() + static_cast<ptrdiff_t>(offset + bytes));
    }
    return shown;
  }

  std::map<Standing, uint64_t> standings() const {
    std::map<Standing, uint64_t> counts;
    const size_t first = by_number_.size() - std::min(by_number_.size(), spec_.capacity);
    for (size_t number = first; number < by_number_.size(); ++number) {
      ++counts[standing(by_number_[number].first, by_number_[number].second)];
    }
    return counts;
  }

  // Draws that a queue's items have left.
  uint64_t draws_left() const {
    uint64_t left = 0;
    for (const auto& [lease, step] : by_number_) {
      const bool live = standing(lease, step) == Standing::live;
      left += live ? spec_.limiter.max_times_sampled - leases_[lease].rows[step].draws : 0;
    }
    return left;
  }
  void draw(size_t lease, size_t step) { ++leases_[lease].rows[step].draws; }

  const OracleLease& lease(size_t index) const { return leases_[index]; }
  void end(size_t index) { leases_[index].ended = true; }
  std::pair<size_t, size_t> find(uint64_t number) const { return by_number_[number]; }
  uint64_t head() const { return by_number_.size(); }
  bool stored(uint64_t number) const { return static_cast<int64_t>(head() - number) <= ring_size_; }
  // The lowest number that may be needed to show the item, by the widest reading of its windows.
  uint64_t reach(const OracleLease& of, size_t step) const {
    const int64_t back = static_cast<int64_t>(step) - static_cast<int64_t>(spec_.item.back());
    return of.rows[static_cast<size_t>(std::max(start(of, step), back))].number;
  }

 private:
  bool stop() const { return spec_.item.boundary == Boundary::stop; }
  bool held(const OracleRow& row) const { return head() - row.number <= spec_.capacity; }
  int64_t episode_start(const OracleLease& of, size_t step) const {
    while ((of.rows[step].flags & kFirst) == 0) --step;
    return static_cast<int64_t>(step);
  }
  int64_t start(const OracleLease& of, size_t step) const {
    return stop() ? episode_start(of, step) : 0;
  }

  TableSpec spec_;
  int64_t ring_size_;
  std::vector<OracleLease> leases_;
  std::vector<std::pair<size_t, size_t>> by_number_;  // (lease, step)
};

}  // namespace drlnet::test
