// With which frequency prioritized sampling draws what, and in which order.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

TEST_CASE("every order of a batch is as likely as every other") {
  // Equal masses: a batch as large as the table holds each item once, in shuffled order.
  for (const uint32_t n : {2u, 4u, 5u}) {
    const auto sampler = make_sampler({}, n);
    for (uint32_t slot = 0; slot < n; ++slot) sampler->insert(slot, 1);
    Random random(n);
    size_t orders = 1;
    for (size_t i = 2; i <= n; ++i) orders *= i;
    const int rounds = 400 * static_cast<int>(orders);
    std::vector<double> counts(orders), expected(orders, 400.0);
    std::vector<uint32_t> slots(n);
    std::vector<float> probabilities(n);
    for (int round = 0; round < rounds; ++round) {
      sampler->draw(slots, probabilities, random);
      size_t rank = 0;  // of the permutation, in the factorial number system
      for (size_t i = 0; i < n; ++i) {
        const auto smaller = std::count_if(slots.begin() + static_cast<ptrdiff_t>(i), slots.end(),
                                           [&](uint32_t slot) { return slot < slots[i]; });
        rank = rank * (n - i) + static_cast<size_t>(smaller);
      }
      ++counts[rank];
    }
    INFO("n ", n);
    CHECK(chi_square(counts, expected) < chi_square_limit(static_cast<double>(orders - 1)));
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
