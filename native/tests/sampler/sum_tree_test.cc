#include "sampler/sum_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace drlnet::test {

TEST_CASE("a target falls under the leaf that a plain prefix sum names") {
  for (const uint32_t leaves : {1u, 2u, 15u, 16u, 17u, 255u, 256u, 257u, 5000u}) {
    INFO("leaves ", leaves);
    SumTree tree(leaves);
    Random random(leaves);
    std::vector<float> masses(leaves);
    std::vector<uint32_t> all(leaves);
    std::iota(all.begin(), all.end(), 0u);
    // Small whole numbers: every sum is exact, so that boundaries are too.
    for (float& mass : masses) mass = static_cast<float>(random.below(4));
    masses[random.below(leaves)] = 1;
    tree.set(all, masses);
    CHECK(tree.total() == std::accumulate(masses.begin(), masses.end(), 0.0));
    uint32_t expected = 0;
    double prefix = static_cast<double>(masses[0]);
    for (double target = 0; target < tree.total(); target += 0.5) {
      while (prefix <= target) prefix += static_cast<double>(masses[++expected]);
      double copy = target;
      uint32_t leaf = leaves;
      tree.find({&copy, 1}, {&leaf, 1});
      REQUIRE(leaf == expected);
    }
  }
}

TEST_CASE("whatever rounding does, a leaf of mass 0 is never found") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const auto leaves = static_cast<uint32_t>(1 + random.below(3000));
    SumTree tree(leaves);
    const uint64_t present = 1 + random.below(20);
    for (uint64_t i = 0; i < present; ++i) {
      const auto leaf = static_cast<uint32_t>(random.below(leaves));
      const auto mass = static_cast<float>(std::pow(10.0, 24 * random.uniform() - 12));
      tree.set({&leaf, 1}, {&mass, 1});
    }
    std::vector<double> targets(1000);
    for (double& target : targets) target = random.uniform() * tree.total();
    targets[0] = tree.total();
    targets[1] = std::nextafter(tree.total(), 0.0);
    targets[2] = 0;
    std::vector<uint32_t> found(targets.size());
    tree.find(targets, found);
    for (const uint32_t leaf : found) REQUIRE(tree.get(leaf) > 0);
  }
}

TEST_CASE("batches of any size set what single updates set") {
  Random random(7);
  SumTree one(4000), many(4000);
  for (const size_t n : {1u, 2u, 16u, 17u, 250u, 4000u, 9000u}) {
    std::vector<uint32_t> leaves(n);
    std::vector<float> masses(n);
    for (size_t i = 0; i < n; ++i) {
      leaves[i] = static_cast<uint32_t>(random.below(4000));  // some twice: the later one holds
      masses[i] = static_cast<float>(random.uniform());
      one.set({&leaves[i], 1}, {&masses[i], 1});
    }
    many.set(leaves, masses);
    CHECK(one.total() == many.total());
    for (uint32_t leaf = 0; leaf < 4000; ++leaf) REQUIRE(one.get(leaf) == many.get(leaf));
  }
}

TEST_CASE("sums do not drift over 10^7 updates") {
  constexpr uint32_t kLeaves = 1 << 14;
  SumTree tree(kLeaves);
  Random random(11);
  std::vector<uint32_t> leaves(512);
  std::vector<float> masses(512);
  for (int batch = 0; batch < 10'000'000 / 512; ++batch) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      const uint64_t bits = random.bits();
      leaves[i] = static_cast<uint32_t>(bits % kLeaves);
      masses[i] =
          std::ldexp(1.0f + static_cast<float>(bits >> 44), static_cast<int>(bits >> 16) % 20);
    }
    tree.set(leaves, masses);
  }
  long double exact = 0;
  for (uint32_t leaf = 0; leaf < kLeaves; ++leaf) exact += static_cast<long double>(tree.get(leaf));
  CHECK(std::abs(tree.total() - static_cast<double>(exact)) <= 1e-13 * tree.total());
  // A fresh tree of the same leaves has the very same sum: nothing of the past is left in it.
  SumTree fresh(kLeaves);
  for (uint32_t leaf = 0; leaf < kLeaves; ++leaf) {
    const float mass = tree.get(leaf);
    fresh.set({&leaf, 1}, {&mass, 1});
  }
  CHECK(fresh.total() == tree.total());
}

}  // namespace drlnet::test
