// The sum tree, under every kernel that runs here, against long double prefix sums.
#include "sampler/sum_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "sampler/masses.h"

namespace drlnet::test {
namespace {

// Every height from 1 to 5, and families that are not full.
constexpr uint32_t kSizes[] = {1, 2, 15, 16, 17, 255, 256, 257, 4095, 4097, 5000, 65537};

std::vector<uint32_t> all_leaves(uint32_t count) {
  std::vector<uint32_t> leaves(count);
  std::iota(leaves.begin(), leaves.end(), 0u);
  return leaves;
}

SumTree tree_of(const std::vector<float>& masses, const Kernel& kernel) {
  const auto count = static_cast<uint32_t>(masses.size());
  SumTree tree(count, kernel);
  tree.set(all_leaves(count), masses);
  return tree;
}

// For each leaf the least target that lands behind it, by bisection over all doubles in
// [0, total]: non-negative ones are ordered as their bits are, and so are the boundaries, with all
// that is tried on the way to them.
std::vector<double> boundaries(const SumTree& tree, uint32_t count) {
  std::vector<uint64_t> low(count, 0), high(count, std::bit_cast<uint64_t>(tree.total()) + 1);
  std::vector<double> targets(count);
  std::vector<uint32_t> found(count);
  for (int step = 0; step < 64; ++step) {
    for (uint32_t i = 0; i < count; ++i) {
      targets[i] = std::bit_cast<double>(low[i] + (high[i] - low[i]) / 2);
    }
    tree.find(targets, found);
    for (uint32_t i = 0; i < count; ++i) {
      if (low[i] == high[i]) continue;
      const uint64_t middle = low[i] + (high[i] - low[i]) / 2;
      (found[i] > i ? high[i] : low[i]) = found[i] > i ? middle : middle + 1;
    }
  }
  for (uint32_t i = 0; i < count; ++i) targets[i] = std::bit_cast<double>(low[i]);
  return targets;
}

}  // namespace

TEST_CASE("the masses before a leaf are a plain prefix sum") {
  for (const uint32_t size : kSizes) {
    CAPTURE(size);
    std::vector<float> masses(size);
    for (uint32_t i = 0; i < size; ++i) masses[i] = static_cast<float>(i % 7);
    const SumTree tree = tree_of(masses, chosen_kernel());
    double sum = 0;
    for (uint32_t leaf = 0; leaf <= size; ++leaf) {
      REQUIRE(tree.before(leaf) == sum);  // whole numbers
      if (leaf < size) sum += double{masses[leaf]};
    }
    CHECK(tree.before(size) == tree.total());
  }
}

TEST_CASE("a target falls under the leaf that a plain prefix sum names") {
  for (const Kernel* kernel : kernels()) {
    for (const uint32_t leaves : kSizes) {
      INFO(std::string(kernel->name), " leaves ", leaves);
      Random random(leaves);
      std::vector<float> masses(leaves);
      // Small whole numbers: every sum is exact, so that boundaries are too.
      for (float& mass : masses) mass = static_cast<float>(random.below(4));
      masses[random.below(leaves)] = 1;
      const SumTree tree = tree_of(masses, *kernel);
      REQUIRE(tree.total() == std::accumulate(masses.begin(), masses.end(), 0.0));
      std::vector<double> targets(static_cast<size_t>(2 * tree.total()));
      for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<double>(i) / 2;
      const std::vector<double> asked = targets;
      std::vector<uint32_t> found(targets.size());
      tree.find(targets, found);
      uint32_t expected = 0;
      double prefix = static_cast<double>(masses[0]);
      for (size_t i = 0; i < found.size(); ++i) {
        while (prefix <= asked[i]) prefix += static_cast<double>(masses[++expected]);
        REQUIRE(found[i] == expected);
      }
    }
  }
}

TEST_CASE("a leaf's interval of targets is as wide as its mass") {
  for (const Kernel* kernel : kernels()) {
    for (const uint32_t leaves : {1u, 2u, 15u, 17u, 256u, 257u, 5000u}) {
      for (const Masses kind : kMasses) {
        INFO(std::string(kernel->name), " leaves ", leaves, " masses ", static_cast<int>(kind));
        const std::vector<float> masses = masses_of(kind, leaves, leaves);
        const SumTree tree = tree_of(masses, *kernel);
        const std::vector<double> ends = boundaries(tree, leaves);
        long double prefix = 0, worst = 0;
        const long double total = std::accumulate(masses.begin(), masses.end(), 0.0L);
        for (uint32_t i = 0; i + 1 < leaves; ++i) {  // the last leaf's end is the end of all
          prefix += static_cast<long double>(masses[i]);
          if (prefix >= total) break;
          worst = std::max(worst, std::abs(static_cast<long double>(ends[i]) - prefix) / total);
        }
        CHECK(worst <= 0x1p-50L);
        CHECK(std::abs(static_cast<long double>(tree.total()) - total) <= 0x1p-50L * total);
      }
    }
  }
}

TEST_CASE("whatever rounding does, a leaf of mass 0 is never found") {
  for (const Kernel* kernel : kernels()) {
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      const Masses kind = kMasses[seed % std::size(kMasses)];
      INFO(std::string(kernel->name), " seed ", seed);
      Random random(seed);
      const auto leaves = static_cast<uint32_t>(1 + random.below(6000));
      const SumTree tree = tree_of(masses_of(kind, leaves, seed), *kernel);
      std::vector<double> targets(1000);
      for (double& target : targets) target = random.uniform() * tree.total();
      targets[0] = tree.total();
      targets[1] = std::nextafter(tree.total(), 0.0);
      targets[2] = 0;
      targets[3] = DBL_TRUE_MIN;
      std::ranges::sort(targets);
      std::vector<uint32_t> found(targets.size());
      tree.find(targets, found);
      for (const uint32_t leaf : found) {
        REQUIRE(leaf < leaves);
        REQUIRE(tree.get(leaf) > 0);
      }
    }
  }
}

TEST_CASE("one leaf left, wherever it is, is found by every target") {
  for (const Kernel* kernel : kernels()) {
    SumTree tree(70000, *kernel);
    for (const uint32_t leaf : {0u, 15u, 16u, 4095u, 65535u, 65536u, 69999u}) {
      for (const float mass : {FLT_TRUE_MIN, 0.1f, FLT_MAX}) {
        tree.set({&leaf, 1}, {&mass, 1});
        std::vector<double> targets = {0, tree.total() / 3, tree.total()};
        std::vector<uint32_t> found(3);
        tree.find(targets, found);
        CHECK(found == std::vector<uint32_t>(3, leaf));
      }
      const float none = 0;
      tree.set({&leaf, 1}, {&none, 1});
      CHECK(tree.total() == 0);
    }
  }
}

TEST_CASE("batches of any size set what single updates set") {
  for (const Kernel* kernel : kernels()) {
    Random random(7);
    SumTree one(4000, *kernel), many(4000, *kernel);
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
      std::vector<double> targets(5000);
      for (double& target : targets) target = random.uniform() * one.total();
      std::ranges::sort(targets);
      std::vector<double> again = targets;
      std::vector<uint32_t> found_one(targets.size()), found_many(targets.size());
      one.find(targets, found_one);
      many.find(again, found_many);
      CHECK(found_one == found_many);
    }
  }
}

// A longer run of it: DRLNET_TEST_UPDATES=100000000.
TEST_CASE("sums do not drift over 10^7 updates") {
  constexpr uint32_t kLeaves = 1 << 14;
  const char* asked = std::getenv("DRLNET_TEST_UPDATES");
  const long updates = asked == nullptr ? 10'000'000 : std::atol(asked);
  SumTree tree(kLeaves);
  Random random(11);
  std::vector<uint32_t> leaves(512);
  std::vector<float> masses(512);
  for (long batch = 0; batch < updates / 512; ++batch) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      const uint64_t bits = random.bits();
      leaves[i] = static_cast<uint32_t>(bits % kLeaves);
      masses[i] =
          std::ldexp(1.0f + static_cast<float>(bits >> 44), static_cast<int>(bits >> 16) % 20);
    }
    tree.set(leaves, masses);
  }
  long double exact = 0;
  std::vector<float> left(kLeaves);
  for (uint32_t leaf = 0; leaf < kLeaves; ++leaf) {
    left[leaf] = tree.get(leaf);
    exact += static_cast<long double>(left[leaf]);
  }
  CHECK(std::abs(tree.total() - static_cast<double>(exact)) <= 0x1p-50 * tree.total());
  // A fresh tree of the same leaves has the very same sum: nothing of the past is left in it.
  CHECK(tree_of(left, chosen_kernel()).total() == tree.total());
}

}  // namespace drlnet::test
