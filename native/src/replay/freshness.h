// How old drawn items are: how long ago their rows came, and how many versions of the params have
// been published since. Rows carry no time; marks left beside them (row number, time, version) do,
// and what lies between two is interpolated. Threading: one thread. Nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/histogram.h"

namespace drlnet {

// The mean of what came last: each value's share fades by half over some 180 later ones.
class RecentMean {
 public:
  void add(double value) {
    if (count_ < kMost) ++count_;
    mean_ += (value - mean_) / static_cast<double>(count_);
  }
  double value() const { return mean_; }

 private:
  static constexpr uint32_t kMost = 256;
  uint32_t count_ = 0;
  double mean_ = 0;
};

class Freshness {
 public:
  struct Mark {
    uint64_t number = 0;  // of the row that comes next
    uint64_t ns = 0;
    uint64_t version = 0;  // of the newest params
  };

  // The rows below `oldest` are gone, and marks that only they need go with them. Marks may come as
  // often as one likes: where they would not find room, every second one goes and the next ones are
  // left that far apart. O(1) amortised.
  void mark(const Mark& mark, uint64_t oldest);
  // One drawn item, by its row number; head: the row that comes next. O(log of the marks).
  void drawn(uint64_t number, uint64_t head, uint64_t now_ns);

  const Histogram& ages() const { return ages_; }
  double versions_behind() const { return behind_.value(); }
  size_t marks() const { return count_; }

 private:
  static constexpr size_t kMarks = 512;
  std::array<Mark, kMarks>
      marks_{};  // in order; the first lies at or before every row that is held
  size_t count_ = 0;
  uint64_t spacing_ns_ = 0;  // the least between two marks
  uint64_t version_ = 0;     // the newest
  Histogram ages_;
  RecentMean behind_;
};

}  // namespace drlnet
