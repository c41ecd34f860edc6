#include "rows/row_copy.h"

#include <doctest/doctest.h>

#include <array>

namespace drlnet::test {

TEST_CASE("a short row of any length is copied, and nothing beside it") {
  constexpr std::byte kUntouched{0xEE};
  constexpr size_t kBefore = 8;
  std::array<std::byte, 64> row;
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::byte>(i + 1);
  for (size_t bytes = 1; bytes <= kShortRowBytes; ++bytes) {
    std::array<std::byte, kBefore + 64 + 8> out;
    out.fill(kUntouched);
    int times = 0;
    with_short_row(bytes, [&](auto length) {
      ++times;
      CHECK(size_t{length} == bytes);
      copy_short_row(out.data() + kBefore, row.data(), length);
    });
    CHECK(times == 1);
    for (size_t i = 0; i < out.size(); ++i) {
      const bool within = i >= kBefore && i < kBefore + bytes;
      CHECK(out[i] == (within ? row[i - kBefore] : kUntouched));
    }
  }
}

}  // namespace drlnet::test
