#include "spec/sample_layout.h"

#include <doctest/doctest.h>

namespace drlnet::test {
namespace {

TableSpec with_views(std::vector<ViewSpec> views) {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = 1000;
  spec.columns = {{"obs", DataType::u8, {84, 84}}, {"reward", DataType::f32, {}}};
  spec.item.views = std::move(views);
  return spec;
}

}  // namespace

TEST_CASE("overlapping stacks share a window, and frames travel once") {
  const SampleLayout layout(with_views({{"obs", 0, -3, 0, Pad::repeat, Align::anchor},
                                        {"next_obs", 0, 0, 3, Pad::repeat, Align::end},
                                        {"reward", 1, 1, 3, Pad::zero, Align::anchor}}));
  REQUIRE(layout.windows().size() == 2);
  const Window& frames = layout.windows()[0];
  CHECK(frames.lo == -3);
  CHECK(frames.hi == 3);
  CHECK(frames.align == Align::anchor);
  CHECK(frames.item_bytes() == 7 * 84 * 84);
  CHECK(layout.views()[0].first == 0);
  CHECK(layout.views()[1].first == 3);
  CHECK(layout.views()[1].rows == 4);
  CHECK_FALSE(layout.views()[0].shift_at_client);
  CHECK(layout.views()[1].shift_at_client);
}

TEST_CASE("views that sharing would make larger stay apart") {
  const SampleLayout layout(with_views({{"obs", 0, 0, 0, Pad::repeat, Align::anchor},
                                        {"next_obs", 0, 5, 5, Pad::repeat, Align::end}}));
  REQUIRE(layout.windows().size() == 2);
  CHECK(layout.windows()[1].align == Align::end);
  CHECK_FALSE(layout.views()[1].shift_at_client);
  const SampleLayout padded(with_views(
      {{"a", 0, 0, 3, Pad::repeat, Align::anchor}, {"b", 0, 0, 3, Pad::zero, Align::anchor}}));
  CHECK(padded.windows().size() == 2);
}

TEST_CASE("sections start at multiples of 64 and do not overlap") {
  const SampleLayout layout(with_views({{"obs", 0, -1, 0, Pad::repeat, Align::anchor},
                                        {"reward", 1, 1, 3, Pad::zero, Align::anchor}}));
  for (uint64_t n = 1; n < 100; ++n) {
    CHECK(layout.keys(n) == 64);
    CHECK(layout.probabilities(n) >= layout.keys(n) + 8 * n);
    CHECK(layout.lengths(n) >= layout.probabilities(n) + 4 * n);
    CHECK(layout.window(n, 0) >= layout.lengths(n) + 4 * n);
    CHECK(layout.window(n, 1) >= layout.window(n, 0) + n * 2 * 84 * 84);
    CHECK(layout.total_bytes(n) >= layout.window(n, 1) + n * 12);
    for (const uint64_t offset : {layout.probabilities(n), layout.lengths(n), layout.window(n, 0),
                                  layout.window(n, 1), layout.total_bytes(n)}) {
      CHECK(offset % 64 == 0);
    }
  }
}

}  // namespace drlnet::test
