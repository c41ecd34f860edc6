#include "measure/samplers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "measure/table.h"

namespace drlnet::measure {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// Powers of two: their sums are exact, whatever the order of updates.
std::vector<float> priorities_of(size_t count) {
  std::vector<float> priorities(count);
  for (size_t i = 0; i < count; ++i) priorities[i] = static_cast<float>(1u << i % 8);
  return priorities;
}

SamplerSpec spec_of(std::string_view name) { return {std::string(name), 1.0, 0.0, {}}; }

TEST_CASE("every registered sampler is timed with all its leaves live") {
  const std::vector<float> priorities = priorities_of(1000);
  for (const SamplerKind& kind : sampler_kinds()) {
    CAPTURE(std::string(kind.name));
    LiveSampler live(spec_of(kind.name), priorities, 7);
    CHECK(live.sampler().size() == priorities.size());
    std::vector<uint64_t> latencies(20);
    CHECK(live.draws(64, {latencies, kSecond}) == latencies.size());
    CHECK(std::ranges::all_of(latencies, [](uint64_t ns) { return ns > 0 && ns < kSecond; }));
    CHECK(live.updates(64, {latencies, kSecond}) == latencies.size());
    CHECK(live.sampler().size() == priorities.size());
  }
}

TEST_CASE("timed updates change priorities, and a loop without time does none") {
  const std::vector<float> priorities = priorities_of(1000);
  LiveSampler live(spec_of("prioritized"), priorities, 7);
  const double before = live.sampler().mass();
  std::vector<uint64_t> latencies(20);
  CHECK(live.updates(64, {latencies, 0}) == 0);
  CHECK(live.sampler().mass() == before);
  live.updates(64, {latencies, kSecond});
  CHECK(live.sampler().mass() != before);
}

TEST_CASE("a sampler that is not there, or of no leaves, is refused") {
  const std::vector<float> priorities = priorities_of(8);
  CHECK_THROWS_AS(LiveSampler(spec_of("prioritised"), priorities, 0), Error);
  CHECK_THROWS_AS(LiveSampler(spec_of("prioritized"), {}, 0), Error);
}

TEST_CASE("a full table answers with whole replies") {
  TableSpec spec;
  spec.name = "measured";
  spec.capacity = 1000;
  spec.columns = {{"obs", DataType::u8, {84, 84}}, {"reward", DataType::f32, {}}};
  spec.item.views = {{"obs", 0, -3, 0, Pad::repeat, Align::anchor},
                     {"next_obs", 0, 0, 3, Pad::repeat, Align::end},
                     {"reward", 1, 1, 3, Pad::zero, Align::anchor}};
  FullTable full(spec);
  CHECK(full.table().rows() == spec.capacity);
  CHECK(full.table().consistent());
  // All but an episode's last row, and those whose frames are no longer, or not yet, there.
  CHECK(full.table().live_items() > spec.capacity * 9 / 10);
  std::vector<uint64_t> latencies(5);
  CHECK(full.samples(32, {latencies, kSecond}) == latencies.size());

  REQUIRE(full.reply().size() == full.table().layout().total_bytes(32));
  SampleHeader header;
  std::memcpy(&header, full.reply().data(), sizeof header);
  CHECK(header.batch == 32);
  CHECK(header.items_drawn == 32 * latencies.size());
  // The last bytes, too: a reward of random bits behind 31 others.
  const std::span<const std::byte> rewards = full.reply().last(64);
  CHECK(std::ranges::any_of(rewards, [](std::byte byte) { return byte != std::byte{0}; }));
}

}  // namespace
}  // namespace drlnet::measure
