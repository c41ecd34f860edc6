#include "client/batch_layout.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "base/random.h"

namespace drlnet::test {
namespace {

constexpr uint32_t kItems = 9;

TableSpec with_views(std::vector<ViewSpec> views, uint32_t obs_bytes = 72) {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = 1000;
  spec.columns = {{"obs", DataType::u8, {obs_bytes}}, {"reward", DataType::f32, {}}};
  spec.item.views = std::move(views);
  return spec;
}

// A reply of random bytes, whose items end after 0 (an item that is not held) to `horizon` steps.
std::vector<std::byte> random_reply(const SampleLayout& layout, uint32_t horizon, Random& random) {
  std::vector<std::byte> reply(layout.total_bytes(kItems));
  for (std::byte& byte : reply) byte = static_cast<std::byte>(random.below(256));
  for (uint32_t i = 0; i < kItems; ++i) {
    const uint32_t length = i % (horizon + 1);
    std::memcpy(reply.data() + layout.lengths(kItems) + 4 * i, &length, sizeof length);
  }
  return reply;
}

// The reply in pieces of random sizes, from its end to its beginning, as repairs may bring it.
void write(const Destination& destination, std::span<const std::byte> reply, Random& random) {
  for (size_t end = reply.size(); end > 0;) {
    const size_t begin = end - std::min<size_t>(end, 1 + random.below(400));
    destination.write(begin, reply.subspan(begin, end - begin));
    end = begin;
  }
}

void check_views(const TableSpec& spec) {
  Random random(7);
  const BatchLayout layout(spec, kItems);
  const SampleLayout& in_reply = layout.reply();
  const auto reply = random_reply(in_reply, spec.item.horizon(), random);
  std::vector<std::byte> memory(layout.memory_bytes());
  const Destination destination = layout.destination(memory);
  REQUIRE(destination.reply_bytes() == reply.size());
  write(destination, reply, random);
  std::vector<std::byte> again(reply.size());
  destination.read(0, again);
  CHECK(again == reply);

  layout.align_views(memory);
  CHECK(std::memcmp(memory.data(), reply.data(), in_reply.window(kItems, 0)) == 0);
  for (size_t v = 0; v < spec.item.views.size(); ++v) {
    const ViewPlace& place = in_reply.views()[v];
    const Window& window = in_reply.windows()[place.window];
    CHECK(layout.views()[v].offset % 4 == 0);
    for (uint32_t i = 0; i < kItems; ++i) {
      const uint32_t length = i % (spec.item.horizon() + 1);
      const bool early = place.shift_at_client && length > 0;
      const uint32_t first = place.first - (early ? spec.item.horizon() - length : 0);
      const std::byte* sent = reply.data() + in_reply.window(kItems, place.window) +
                              i * window.item_bytes() + first * window.row_bytes;
      const auto& view = layout.views()[v];
      const std::byte* shown = memory.data() + view.offset + i * view.item_bytes;
      REQUIRE(std::memcmp(shown, sent, place.rows * window.row_bytes) == 0);
    }
  }
}

}  // namespace

TEST_CASE("views that no other one moves lie in memory as in the reply") {
  const TableSpec spec = with_views({{"obs", 0, -3, 0, Pad::repeat, Align::anchor},
                                     {"next_obs", 0, -2, 1, Pad::repeat, Align::end},
                                     {"reward", 1, 1, 1, Pad::zero, Align::anchor}});
  const BatchLayout layout(spec, kItems);
  CHECK(layout.memory_bytes() == layout.reply().total_bytes(kItems));
  check_views(spec);
}

TEST_CASE("rows that an item which ends early shows earlier lie apart") {
  const std::vector<ViewSpec> stacks = {{"obs", 0, -3, 0, Pad::repeat, Align::anchor},
                                        {"next_obs", 0, 0, 3, Pad::repeat, Align::end},
                                        {"reward", 1, 1, 3, Pad::zero, Align::anchor}};
  const TableSpec spec = with_views(stacks);
  const BatchLayout layout(spec, kItems);
  // One of the seven rows lies twice.
  CHECK(layout.views()[0].item_bytes == size_t{8} * 72);
  CHECK(layout.views()[1].offset == layout.views()[0].offset + size_t{4} * 72);
  check_views(spec);
  // The same where other views share the window, or one that moves is all of it.
  std::vector<ViewSpec> more = stacks;
  more.push_back({"before", 0, -1, 0, Pad::repeat, Align::anchor});
  more.push_back({"last", 0, 3, 3, Pad::repeat, Align::end});
  check_views(with_views(more));
  check_views(with_views({{"all", 0, -2, 3, Pad::repeat, Align::anchor},
                          {"end", 0, 2, 3, Pad::repeat, Align::end},
                          {"reward", 1, 1, 3, Pad::zero, Align::anchor},
                          {"last_reward", 1, 3, 3, Pad::zero, Align::end}}));
}

TEST_CASE("a batch larger than the caches lies as a small one") {
  check_views(with_views({{"obs", 0, -3, 0, Pad::repeat, Align::anchor},
                          {"next_obs", 0, 0, 3, Pad::repeat, Align::end},
                          {"reward", 1, 1, 3, Pad::zero, Align::anchor}},
                         70'003));
}

TEST_CASE("a batch that comes in parts lies as one that comes whole") {
  const TableSpec spec = with_views({{"obs", 0, -3, 0, Pad::repeat, Align::anchor},
                                     {"next_obs", 0, 0, 3, Pad::repeat, Align::end},
                                     {"reward", 1, 1, 3, Pad::zero, Align::anchor}});
  Random random(11);
  const BatchLayout layout(spec, kItems);
  const SampleLayout& in_reply = layout.reply();
  const auto whole = random_reply(in_reply, spec.item.horizon(), random);
  std::vector<std::byte> memory(layout.memory_bytes()), by_parts(layout.memory_bytes());
  layout.destination(memory).write(0, whole);
  for (const auto& [first, rows] : {std::pair{0u, 2u}, {2u, 1u}, {3u, kItems - 3}}) {
    std::vector<std::byte> part(in_reply.total_bytes(rows));
    const auto take = [&](uint64_t to, uint64_t from, uint64_t item_bytes) {
      std::memcpy(part.data() + to, whole.data() + from + first * item_bytes, rows * item_bytes);
    };
    take(in_reply.keys(rows), in_reply.keys(kItems), 8);
    take(in_reply.probabilities(rows), in_reply.probabilities(kItems), 4);
    take(in_reply.lengths(rows), in_reply.lengths(kItems), 4);
    for (size_t i = 0; i < in_reply.windows().size(); ++i) {
      take(in_reply.window(rows, i), in_reply.window(kItems, i),
           in_reply.windows()[i].item_bytes());
    }
    Places places;
    places.reply_bytes = part.size();
    layout.add_part(by_parts, first, rows, places);
    write(Destination(places), part, random);
    std::vector<std::byte> again(part.size());
    Destination(places).read(0, again);
    // The header is of no run, nor what lies between the parts: they are dropped.
    CHECK(std::memcmp(again.data() + 64, part.data() + 64, size_t{8} * rows) == 0);
    const uint64_t last = in_reply.window(rows, in_reply.windows().size() - 1);
    CHECK(std::memcmp(again.data() + last, part.data() + last, size_t{12} * rows) == 0);
  }
  layout.align_views(memory);
  layout.align_views(by_parts);
  const auto same = [&](uint64_t offset, size_t bytes) {
    return std::memcmp(memory.data() + offset, by_parts.data() + offset, bytes) == 0;
  };
  CHECK(same(in_reply.keys(kItems), size_t{8} * kItems));
  CHECK(same(in_reply.probabilities(kItems), size_t{4} * kItems));
  CHECK(same(in_reply.lengths(kItems), size_t{4} * kItems));
  for (size_t v = 0; v < spec.item.views.size(); ++v) {
    const auto& view = layout.views()[v];
    const ViewPlace& place = in_reply.views()[v];
    const size_t bytes = place.rows * in_reply.windows()[place.window].row_bytes;
    for (uint32_t i = 0; i < kItems; ++i) REQUIRE(same(view.offset + i * view.item_bytes, bytes));
  }
}

TEST_CASE("views that move without a row in common with others take no more memory") {
  const TableSpec spec = with_views({{"obs", 0, 0, 1, Pad::repeat, Align::anchor},
                                     {"next_obs", 0, 2, 3, Pad::repeat, Align::end},
                                     {"reward", 1, 1, 3, Pad::zero, Align::anchor}});
  const BatchLayout layout(spec, kItems);
  CHECK(layout.memory_bytes() == layout.reply().total_bytes(kItems));
  check_views(spec);
}

}  // namespace drlnet::test
