#include "wire/messages.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace drlnet::test {

TEST_CASE("the greatest priority is found wherever it stands, and so is one that is not sound") {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const size_t count : {1u, 2u, 3u, 4u, 5u, 31u, 64u, 513u}) {
    const std::vector<float> sound(count, 0.5f);
    for (size_t i = 0; i < count; ++i) {
      const auto with = [&](float priority) {
        std::vector<float> changed = sound;
        changed[i] = priority;
        return greatest_priority(changed);
      };
      CHECK(with(2) == 2);
      CHECK(with(kMost) == kMost);
      CHECK(with(0) == (count == 1 ? 0 : 0.5f));
      CHECK(with(-0.0f) == (count == 1 ? 0 : 0.5f));
      CHECK_FALSE(with(-std::numeric_limits<float>::denorm_min()));
      CHECK_FALSE(with(-1));
      CHECK_FALSE(with(std::numeric_limits<float>::infinity()));
      CHECK_FALSE(with(-std::numeric_limits<float>::infinity()));
      CHECK_FALSE(with(std::numeric_limits<float>::quiet_NaN()));
      CHECK_FALSE(with(-std::numeric_limits<float>::quiet_NaN()));
    }
  }
  CHECK(greatest_priority({}) == 0);
}

}  // namespace drlnet::test
