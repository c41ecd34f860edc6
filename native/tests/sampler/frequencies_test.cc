// With which frequency prioritized sampling draws what, and in which order.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "sampler/sampler.h"
#include "sampler/statistics.h"

namespace drlnet::test {
namespace {

constexpr size_t kBins = 256;

// A sampler of which every third slot is absent, and the exact mass in each bin of slots: those of
// equal remainder, so that every bin reaches over the whole tree.
struct Binned {
  std::unique_ptr<Sampler> sampler;
  std::vector<bool> present;
  std::vector<double> expected = std::vector<double>(kBins, 0.0);  // of one draw

  Binned(uint32_t leaves, double orders_of_magnitude) : present(leaves) {
    SamplerSpec spec;
    spec.priority_exponent = 1;
    spec.priority_floor = 1e-9;
    sampler = make_sampler(spec, leaves);
    Random random(leaves);
    double total = 0;
    for (uint32_t slot = 0; slot < leaves; ++slot) {
      const double power = (random.uniform() - 0.5) * orders_of_magnitude;
      const auto priority = static_cast<float>(std::pow(10.0, power));
      if (slot % 3 == 2) continue;
      sampler->insert(slot, priority);
      present[slot] = true;
      expected[slot % kBins] += static_cast<double>(priority);
      total += static_cast<double>(priority);
    }
    for (double& share : expected) share /= total;
  }
};

// Equal masses: a batch as large as the table has its strata for slots.
struct Strata {
  std::unique_ptr<Sampler> sampler;
  std::vector<uint32_t> slots;
  std::vector<float> probabilities;
  Random random;

  explicit Strata(uint32_t n)
      : sampler(make_sampler({}, n)), slots(n), probabilities(n), random(n) {
    for (uint32_t slot = 0; slot < n; ++slot) sampler->insert(slot, 1);
  }
  const std::vector<uint32_t>& draw() {
    sampler->draw(slots, probabilities, random);
    return slots;
  }
};

}  // namespace

TEST_CASE("independent single draws follow the masses at every size") {
  for (const uint32_t leaves : {1000u, 1u << 12, 50001u, 1u << 17, 1u << 20}) {
    for (const double orders : {1.0, 3.0}) {
      INFO("leaves ", leaves, " orders ", orders);
      const Binned binned(leaves, orders);
      constexpr int kDraws = draws(200000);
      Random random(leaves + 1);
      std::vector<double> counts(kBins), expected = binned.expected;
      for (double& share : expected) share *= kDraws;
      for (int i = 0; i < kDraws; ++i) {
        uint32_t slot = 0;
        float probability = 0;
        binned.sampler->draw({&slot, 1}, {&probability, 1}, random);
        REQUIRE(binned.present[slot]);
        ++counts[slot % kBins];
      }
      CHECK(chi_square(counts, expected) < chi_square_limit(kBins - 1));
    }
  }
}

TEST_CASE("decades of equal mass are drawn equally often, whatever lies beside them") {
  // One item of 1, ten of 0.1, ... a million of 1e-6, in random order. (What lies further below is
  // too rare to be counted: sum_tree_test.cc measures its interval.)
  constexpr int kDecades = 7;
  std::vector<uint8_t> decades;
  for (int decade = 0, count = 1; decade < kDecades; ++decade, count *= 10) {
    decades.insert(decades.end(), static_cast<size_t>(count), static_cast<uint8_t>(decade));
  }
  Random random(12);
  for (size_t i = decades.size(); i > 1; --i) std::swap(decades[i - 1], decades[random.below(i)]);
  SamplerSpec spec;
  spec.priority_exponent = 1;
  spec.priority_floor = 1e-9;
  const auto sampler = make_sampler(spec, static_cast<uint32_t>(decades.size()));
  for (uint32_t slot = 0; slot < decades.size(); ++slot) {
    sampler->insert(slot, static_cast<float>(std::pow(10.0, -decades[slot])));
  }
  constexpr int kDraws = draws(200000);
  std::vector<double> counts(kDecades), expected(kDecades, double{kDraws} / kDecades);
  for (int i = 0; i < kDraws; ++i) {
    uint32_t slot = 0;
    float probability = 0;
    sampler->draw({&slot, 1}, {&probability, 1}, random);
    ++counts[decades[slot]];
  }
  CHECK(chi_square(counts, expected) < chi_square_limit(kDecades - 1));
}

TEST_CASE("each stratum stands once in a batch, and a batch begins with each as often") {
  for (uint32_t n = 1; n <= 70; ++n) {
    INFO("n ", n);
    Strata strata(n);
    std::vector<double> counts(n), expected(n, 50.0);
    for (uint32_t round = 0; round < 50 * n; ++round) {
      std::vector<uint32_t> slots = strata.draw();
      ++counts[slots[0]];
      std::ranges::sort(slots);
      for (uint32_t slot = 0; slot < n; ++slot) REQUIRE(slots[slot] == slot);
    }
    if (n > 1) CHECK(chi_square(counts, expected) < chi_square_limit(n - 1));
  }
}

TEST_CASE("any run of a batch is spread over all of it, with gaps of three lengths") {
  for (const uint32_t n : {2u, 3u, 4u, 5u, 6u, 13u, 14u, 32u, 64u, 255u, 377u, 512u, 1000u}) {
    Strata strata(n);
    for (int round = 0; round < 20; ++round) {
      const std::vector<uint32_t>& slots = strata.draw();
      for (const uint32_t k : {2u, 3u, 8u, 20u, n / 4, n / 2, n}) {
        if (k < 2 || k > n) continue;
        INFO("n ", n, " run of ", k);
        const auto begin = slots.begin() + static_cast<ptrdiff_t>(strata.random.below(n - k + 1));
        std::vector<uint32_t> run(begin, begin + k);
        std::ranges::sort(run);
        std::set<uint32_t> gaps;
        for (uint32_t i = 1; i < k; ++i) gaps.insert(run[i] - run[i - 1]);
        CHECK(gaps.size() <= 3);
        CHECK(std::max({*gaps.rbegin(), run.front(), n - 1 - run.back()}) <= 3 * *gaps.begin());
      }
    }
  }
}

TEST_CASE("each place of a batch follows the masses by itself") {
  constexpr uint32_t kLeaves = 24;
  constexpr int kRounds = draws(20000);
  for (const size_t n : {2u, 5u, 8u, 32u}) {
    SamplerSpec spec;
    spec.priority_exponent = 1;
    const auto sampler = make_sampler(spec, kLeaves);
    std::vector<double> expected(kLeaves);
    for (uint32_t slot = 0; slot < kLeaves; ++slot) {
      sampler->insert(slot, static_cast<float>(1 + slot % 7));
      expected[slot] = (1 + slot % 7) * double{kRounds} / 90;
    }
    REQUIRE(sampler->mass() == 90);
    std::vector<std::vector<double>> counts(n, std::vector<double>(kLeaves));
    std::vector<uint32_t> slots(n);
    std::vector<float> probabilities(n);
    Random random(n);
    for (int round = 0; round < kRounds; ++round) {
      sampler->draw(slots, probabilities, random);
      for (size_t place = 0; place < n; ++place) ++counts[place][slots[place]];
    }
    for (size_t place = 0; place < n; ++place) {
      INFO("place ", place, " of ", n);
      CHECK(chi_square(counts[place], expected) < chi_square_limit(kLeaves - 1));
    }
  }
}

TEST_CASE("within its stratum a target is uniform") {
  // 8 strata over 256 equal items, 32 to a stratum.
  const auto sampler = make_sampler({}, 256);
  for (uint32_t slot = 0; slot < 256; ++slot) sampler->insert(slot, 1);
  Random random(3);
  std::vector<double> counts(256), expected(256, 500.0);
  std::vector<uint32_t> slots(8);
  std::vector<float> probabilities(8);
  for (int round = 0; round < 500 * 32; ++round) {
    sampler->draw(slots, probabilities, random);
    for (const uint32_t slot : slots) ++counts[slot];
  }
  CHECK(chi_square(counts, expected) < chi_square_limit(8 * 31));
}

}  // namespace drlnet::test
