#include "spec/sample_layout.h"

#include <algorithm>

namespace drlnet {
namespace {

int32_t shift_of(const ItemSpec& item, Align align) {
  const auto n = static_cast<int32_t>(item.horizon());
  return align == Align::end && item.boundary == Boundary::stop && n > 1 ? n - 1 : 0;
}

}  // namespace

SampleLayout::SampleLayout(const TableSpec& spec) {
  const ItemSpec& item = spec.item;
  // One window per view first, then merge pairs for as long as sharing sends no more rows.
  std::vector<size_t> window_of(item.views.size());
  for (size_t i = 0; i < item.views.size(); ++i) {
    const ViewSpec& view = item.views[i];
    window_of[i] = windows_.size();
    windows_.push_back(
        {view.column, view.lo, view.hi, view.pad, view.align, spec.columns[view.column].bytes()});
  }
  bool merged = true;
  while (merged) {
    merged = false;
    for (size_t a = 0; a < windows_.size() && !merged; ++a) {
      for (size_t b = a + 1; b < windows_.size() && !merged; ++b) {
        const Window &x = windows_[a], &y = windows_[b];
        if (x.column != y.column || x.pad != y.pad) continue;
        // An end-aligned view in a shared window also needs the rows that it shifts down to.
        const bool same = x.align == y.align;
        const int32_t lo = std::min(x.lo - (same ? 0 : shift_of(item, x.align)),
                                    y.lo - (same ? 0 : shift_of(item, y.align)));
        const int32_t hi = std::max(x.hi, y.hi);
        if (static_cast<uint64_t>(hi - lo + 1) > x.rows() + y.rows()) continue;
        windows_[a] = {x.column, lo, hi, x.pad, same ? x.align : Align::anchor, x.row_bytes};
        windows_.erase(windows_.begin() + static_cast<ptrdiff_t>(b));
        for (size_t& w : window_of) {
          if (w == b)
            w = a;
          else if (w > b)
            --w;
        }
        merged = true;
      }
    }
  }
  for (size_t i = 0; i < item.views.size(); ++i) {
    const ViewSpec& view = item.views[i];
    const Window& window = windows_[window_of[i]];
    views_.push_back({static_cast<uint16_t>(window_of[i]),
                      static_cast<uint32_t>(view.lo - window.lo),
                      static_cast<uint32_t>(view.hi - view.lo + 1),
                      view.align == Align::end && window.align == Align::anchor &&
                          shift_of(item, view.align) > 0});
  }
}

uint64_t SampleLayout::window(uint64_t n, size_t index) const {
  uint64_t offset = align64(lengths(n) + 4 * n);
  for (size_t i = 0; i < index; ++i) offset = align64(offset + n * windows_[i].item_bytes());
  return offset;
}

}  // namespace drlnet
