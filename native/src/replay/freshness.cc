#include "replay/freshness.h"

#include <algorithm>

namespace drlnet {

void Freshness::mark(const Mark& mark, uint64_t oldest) {
  version_ = mark.version;
  if (count_ > 0 && mark.ns < marks_[count_ - 1].ns + spacing_ns_) return;
  // While no rows come the first mark at a number says when the row before it had come, and the
  // last one how long there was none.
  if (count_ > 1 && marks_[count_ - 2].number == mark.number) --count_;
  if (count_ == kMarks) {
    const auto held = std::upper_bound(marks_.begin(), marks_.end(), oldest,
                                       [](uint64_t n, const Mark& m) { return n < m.number; });
    const size_t gone = static_cast<size_t>(std::max<ptrdiff_t>(held - marks_.begin() - 1, 0));
    std::move(marks_.begin() + static_cast<ptrdiff_t>(gone), marks_.end(), marks_.begin());
    count_ -= gone;
    if (count_ > kMarks / 2) {
      const size_t all = count_;
      count_ = 0;
      for (size_t i = 0; i < all; i += 2) marks_[count_++] = marks_[i];
    }
    spacing_ns_ = (mark.ns - marks_[0].ns) / (kMarks / 2);
  }
  marks_[count_++] = mark;
}

void Freshness::drawn(uint64_t number, uint64_t head, uint64_t now) {
  if (count_ == 0) return;
  const auto end = marks_.begin() + static_cast<ptrdiff_t>(count_);
  const auto above = std::upper_bound(marks_.begin() + 1, end, number,
                                      [](uint64_t n, const Mark& m) { return n < m.number; });
  const Mark& before = *(above - 1);
  const Mark after = above != end ? *above : Mark{head, now, version_};
  const double rows = static_cast<double>(after.number - before.number);
  const double share = after.number > number && number > before.number
                           ? static_cast<double>(number - before.number) / rows
                           : 0;
  const auto between = [&](uint64_t from, uint64_t to) {
    return static_cast<double>(from) +
           share * (static_cast<double>(to) - static_cast<double>(from));
  };
  const double came_ns = between(before.ns, std::max(before.ns, after.ns));
  ages_.record(now - std::min(now, static_cast<uint64_t>(came_ns)));
  behind_.add(static_cast<double>(version_) - between(before.version, after.version));
}

}  // namespace drlnet
