#include "measure/samplers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

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

TEST_CASE("a sampler that is not there is refused") {
  const std::vector<float> priorities = priorities_of(8);
  CHECK_THROWS_AS(LiveSampler(spec_of("prioritised"), priorities, 0), Error);
}

}  // namespace
}  // namespace drlnet::measure
