#include "spec/items.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace drlnet {

std::optional<float> greatest_priority(std::span<const float> priorities) {
  // Finite numbers >= 0 are ordered as their bits are, below all others without a sign. Integers
  // may be compared in any order: many at a time, and in four rows, none of which waits for
  // another.
  const size_t row = priorities.size() / 4;
  const auto bits = [&](size_t i) {
    return std::bit_cast<int32_t>(priorities[i] + 0.0f);  // of -0: those of 0
  };
  int32_t signs = 0, a = 0, b = 0, c = 0, d = 0;
  for (size_t i = 0; i < row; ++i) {
    const int32_t first = bits(i), second = bits(row + i);
    const int32_t third = bits(2 * row + i), fourth = bits(3 * row + i);
    a = std::max(a, first);
    b = std::max(b, second);
    c = std::max(c, third);
    d = std::max(d, fourth);
    signs |= first | second | third | fourth;
  }
  for (size_t i = 4 * row; i < priorities.size(); ++i) {
    a = std::max(a, bits(i));
    signs |= bits(i);
  }
  const int32_t greatest = std::max({a, b, c, d});
  constexpr auto kMost = std::bit_cast<int32_t>(std::numeric_limits<float>::max());
  if (signs < 0 || greatest > kMost) return std::nullopt;
  return std::bit_cast<float>(greatest);
}

}  // namespace drlnet
