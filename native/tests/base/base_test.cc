#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <vector>

#include "base/edit_distance.h"
#include "base/error.h"
#include "base/histogram.h"
#include "base/mapping.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/streaming_copy.h"
#include "base/world.h"

namespace drlnet::test {
namespace {

constexpr double kQuantiles[] = {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0};

void expect_percentiles(const std::function<double(Random&)>& draw) {
  Random random(4);
  Histogram histogram;
  std::vector<uint64_t> exact;
  for (int i = 0; i < 200'000; ++i) {
    exact.push_back(static_cast<uint64_t>(draw(random)));
    histogram.record(exact.back());
  }
  std::ranges::sort(exact);
  Metrics metrics;
  metrics.set("reading", histogram);
  const auto& reading = std::get<HistogramReading>(metrics.list()[0].second);
  for (const double q : kQuantiles) {
    CAPTURE(q);
    const size_t rank = std::min(exact.size() - 1, static_cast<size_t>(q * exact.size()));
    const auto expected = static_cast<double>(exact[rank]);
    CHECK(std::abs(static_cast<double>(histogram.percentile_ns(q)) - expected) <= expected * 0.01);
    CHECK(std::abs(reading.percentile_ns(q) - expected) <= expected * 0.01);
  }
  CHECK(histogram.count() == exact.size());
  CHECK(histogram.max_ns() == exact.back());
}

}  // namespace

TEST_CASE("percentiles are within 1% of the exact ones") {
  SUBCASE("constant") {
    expect_percentiles([](Random&) { return 12345.0; });
  }
  SUBCASE("small integers") {
    expect_percentiles([](Random& r) { return r.uniform() * 100; });
  }
  SUBCASE("uniform") {
    expect_percentiles([](Random& r) { return 1e3 + r.uniform() * 1e6; });
  }
  SUBCASE("exponential") {
    expect_percentiles([](Random& r) { return -5e4 * std::log1p(-r.uniform()); });
  }
  SUBCASE("heavy tail") {
    expect_percentiles([](Random& r) { return 1e3 * std::pow(1 - r.uniform(), -1.2); });
  }
  SUBCASE("log-normal") {  // by Box and Muller
    expect_percentiles([](Random& r) {
      const double radius = std::sqrt(-2 * std::log1p(-r.uniform()));
      return 8e4 * std::exp(1.5 * radius * std::cos(2 * std::numbers::pi * r.uniform()));
    });
  }
  SUBCASE("a microsecond to ten seconds, all magnitudes alike") {
    expect_percentiles([](Random& r) { return 1e3 * std::pow(10, 7 * r.uniform()); });
  }
  SUBCASE("two modes") {
    expect_percentiles([](Random& r) { return (r.uniform() < 0.7 ? 3e3 : 8e6) + r.below(500); });
  }
}

TEST_CASE("what was recorded between two readings, and what two histograms hold together") {
  Random random(6);
  Histogram histogram, alone, other;
  const auto record = [&](Histogram& into, int n, double scale) {
    std::vector<uint64_t> values;
    for (int i = 0; i < n; ++i) {
      values.push_back(static_cast<uint64_t>(-scale * std::log1p(-random.uniform())));
      into.record(values.back());
    }
    return values;
  };
  record(histogram, 5000, 1e6);
  const HistogramReading earlier(histogram);
  for (const uint64_t value : record(alone, 3000, 1e4)) histogram.record(value);
  const HistogramReading later(histogram), between = later.since(earlier);
  const HistogramReading exact(alone);
  CHECK(between.count == exact.count);
  CHECK(between.sum_ns == exact.sum_ns);
  CHECK(between.buckets == exact.buckets);
  // The longest of all came before: the longest since is known as nearly as its bucket tells.
  CHECK(static_cast<double>(between.max_ns) == doctest::Approx(exact.max_ns).epsilon(0.01));
  CHECK(later.since(later).count == 0);
  CHECK(later.since(HistogramReading()).buckets == later.buckets);
  // From another life: what it counts is not a part of ours.
  CHECK(earlier.since(later).buckets == earlier.buckets);
  record(other, 100, 1e9);
  CHECK(HistogramReading(other).since(exact).count == 100);

  const HistogramReading both = earlier.merged(between);
  CHECK(both.buckets == later.buckets);
  CHECK(both.count == later.count);
  CHECK(both.sum_ns == later.sum_ns);
  CHECK(both.max_ns == later.max_ns);
  CHECK(HistogramReading().merged(exact).buckets == exact.buckets);
}

TEST_CASE("an empty histogram reads 0, and a value beyond its range is clamped") {
  Histogram histogram;
  CHECK(histogram.percentile_ns(0.5) == 0);
  histogram.record(UINT64_MAX);
  CHECK(histogram.bucket(Histogram::kBuckets - 1) == 1);
  CHECK(histogram.max_ns() == UINT64_MAX);
}

TEST_CASE("the rank of a percentile stays below the count, however large") {
  for (const uint64_t count : {uint64_t{1}, uint64_t{2}, (uint64_t{1} << 53) + 1, ~uint64_t{0}}) {
    CHECK(Histogram::rank_of(-1.0, count) == 0);
    CHECK(Histogram::rank_of(0.0, count) == 0);
    CHECK(Histogram::rank_of(1.0, count) == count - 1);
    CHECK(Histogram::rank_of(7.0, count) == count - 1);
    CHECK(Histogram::rank_of(std::nan(""), count) == count - 1);
  }
  CHECK(Histogram::rank_of(0.5, 10) == 5);
}

TEST_CASE("buckets are in order, without gaps, and hold their own middle") {
  uint32_t previous = 0;
  for (uint64_t value = 0; value < (1u << 20); ++value) {
    const uint32_t bucket = Histogram::bucket_of(value);
    REQUIRE((bucket == previous || bucket == previous + 1));
    previous = bucket;
  }
  for (uint32_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    REQUIRE(Histogram::bucket_of(Histogram::middle_of(bucket)) == bucket);
  }
}

TEST_CASE("random numbers stay below their bound and are uniform in it") {
  Random random(9);
  for (const uint64_t bound : {1ull, 2ull, 3ull, 10ull, (1ull << 63) + 1, ~0ull}) {
    for (int i = 0; i < 1000; ++i) REQUIRE(random.below(bound) < bound);
  }
  std::array<double, 7> counts{};
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) ++counts[random.below(counts.size())];
  double chi_square = 0;
  for (const double count : counts) chi_square += (count - 1e4) * (count - 1e4) / 1e4;
  CHECK(chi_square < 22.5);  // 6 degrees of freedom, p = 0.001
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.uniform();
    REQUIRE((value >= 0 && value < 1));
    sum += value;
  }
  CHECK(sum / kDraws == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("a mapping is zeroed, aligned to huge pages where it is large, and can be moved") {
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{2} << 20, (size_t{5} << 20) + 1}) {
    std::vector<Mapping> several;  // neighbours must not lose what is theirs
    for (size_t i = 0; i < 5; ++i) {
      Mapping mapping(bytes);
      CHECK(mapping.bytes() == bytes);
      if (bytes >= size_t{2} << 20)
        CHECK(reinterpret_cast<uintptr_t>(mapping.data()) % (2 << 20) == 0);
      CHECK(mapping.data()[0] == std::byte{0});
      CHECK(mapping.data()[bytes - 1] == std::byte{0});
      mapping.data()[0] = mapping.data()[bytes - 1] = static_cast<std::byte>(i + 1);
      several.push_back(std::move(mapping));
    }
    several.erase(several.begin() + 1);
    CHECK(several[0].data()[bytes - 1] == std::byte{1});
    CHECK(several[1].data()[0] == std::byte{3});
    CHECK(several[3].data()[bytes - 1] == std::byte{5});
  }
}

TEST_CASE("a streaming copy writes these bytes and no others, wherever they begin and end") {
  Random random(3);
  std::vector<std::byte> from(400), to(600), expected(600);
  for (int i = 0; i < 20'000; ++i) {
    const size_t bytes = random.below(320), source = random.below(80), place = random.below(200);
    for (std::byte& byte : from) byte = static_cast<std::byte>(random.below(256));
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(source), bytes,
                expected.begin() + static_cast<ptrdiff_t>(place));
    streaming_copy(to.data() + place, from.data() + source, bytes);
    streaming_fence();
    REQUIRE(to == expected);
  }
}

TEST_CASE("equal seeds give equal numbers, other seeds others, and secrets differ") {
  Random a(1), b(1), c(2);
  CHECK(a.bits() == b.bits());
  CHECK(a.bits() != c.bits());
  CHECK(random_secret() != random_secret());
}

TEST_CASE("every status has a name of its own, also unknown ones") {
  std::set<std::string_view> names;
  for (uint16_t code = 0; code <= 13; ++code) names.insert(status_name(static_cast<Status>(code)));
  CHECK(names.size() == 14);
  CHECK_FALSE(status_name(static_cast<Status>(9999)).empty());
}

TEST_CASE("an error shows its cause and its remedy on lines of their own") {
  CHECK(std::string(Error(Status::config, "cause", "remedy").what()) == "cause\nremedy");
  CHECK(std::string(Error(Status::config, "cause", "").what()) == "cause");
}

TEST_CASE("a distance counts the letters that differ") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "udp") == 3);
  CHECK(edit_distance("udp", "") == 3);
  CHECK(edit_distance("udp", "udp") == 0);
  CHECK(edit_distance("upd", "udp") == 2);
  CHECK(edit_distance("prioritised", "prioritized") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

}  // namespace drlnet::test
