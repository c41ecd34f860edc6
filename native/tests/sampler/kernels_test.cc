// Every kernel that runs here against the others, to the bit, and against the standard library.
#include <doctest/doctest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "sampler/kernels/kernel.h"
#include "sampler/masses.h"
#include "sampler/sampler.h"
#include "sampler/sum_tree.h"

namespace drlnet::test {
namespace {

// Samplers made while it lives run on that kernel.
class KernelChoice {
 public:
  explicit KernelChoice(std::string_view name) {
    if (const char* set = std::getenv(kName)) before_ = set;
    ::setenv(kName, std::string(name).c_str(), 1);
  }
  ~KernelChoice() { before_.empty() ? ::unsetenv(kName) : ::setenv(kName, before_.c_str(), 1); }
  KernelChoice(const KernelChoice&) = delete;

 private:
  static constexpr const char* kName = "DRLNET_KERNEL";
  std::string before_;
};

// Everything from 0 over the least denormal to the greatest float.
std::vector<float> priorities(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> all = {0, FLT_TRUE_MIN, FLT_MIN, 1e-6f, 0.5f, 1, 2, 3, FLT_MAX};
  while (all.size() < count) {
    const auto exponent = static_cast<int>(random.below(276)) - 149;
    all.push_back(std::ldexp(1 + static_cast<float>(random.uniform()), exponent));
  }
  return all;
}

// Ascending in [0, total]: some anywhere, others where one leaf ends and the next begins, to within
// a few roundings of float64 or of float32.
std::vector<double> hard_targets(const SumTree& tree, uint32_t leaves, size_t n, Random& random) {
  std::vector<double> ends(leaves), targets(n);
  double sum = 0;
  for (uint32_t leaf = 0; leaf < leaves; ++leaf) ends[leaf] = sum += double{tree.get(leaf)};
  for (double& target : targets) {
    const double end = ends[random.below(leaves)];
    const double off = static_cast<double>(random.below(5)) - 2;
    const uint64_t way = random.below(4);
    target = way == 0   ? random.uniform() * tree.total()
             : way == 1 ? end * (1 + off * DBL_EPSILON)
             : way == 2 ? end * (1 + off * double{FLT_EPSILON})
                        : end;
    target = std::clamp(target, 0.0, tree.total());
  }
  std::ranges::sort(targets);
  return targets;
}

}  // namespace

TEST_CASE("max(p, floor)^alpha is right to a relative 2e-7, above an alpha of 1 to 5e-7") {
  const std::vector<float> all = priorities(20000, 3);
  std::vector<float> masses(all.size());
  for (const Kernel* kernel : kernels()) {
    for (const float floor : {FLT_MIN, 1e-6f, 0.01f}) {
      for (const float alpha :
           {0.0f, 0.1f, 0.25f, 0.5f, 0.6f, 0.7f, 0.9f, 1.0f, 1.5f, 3.999f, 4.0f}) {
        kernel->power(all.data(), masses.data(), all.size(), floor, alpha);
        long double worst = 0;
        for (size_t i = 0; i < all.size(); ++i) {
          const long double raised = std::pow(static_cast<long double>(std::max(all[i], floor)),
                                              static_cast<long double>(alpha));
          const auto exact = std::clamp<long double>(raised, FLT_MIN, FLT_MAX);
          worst = std::max(worst, std::abs(static_cast<long double>(masses[i]) - exact) / exact);
        }
        INFO(std::string(kernel->name), " floor ", floor, " alpha ", alpha);
        CHECK(worst <= (alpha <= 1 ? 2e-7L : 5e-7L));
      }
    }
  }
}

TEST_CASE("a power of 1 and of 0 are exact") {
  const std::vector<float> all = priorities(5000, 4);
  std::vector<float> masses(all.size());
  for (const Kernel* kernel : kernels()) {
    kernel->power(all.data(), masses.data(), all.size(), FLT_MIN, 1);
    for (size_t i = 0; i < all.size(); ++i) REQUIRE(masses[i] == std::max(all[i], FLT_MIN));
    kernel->power(all.data(), masses.data(), all.size(), FLT_MIN, 0);
    CHECK(std::all_of(masses.begin(), masses.end(), [](float mass) { return mass == 1; }));
  }
}

TEST_CASE("kernels agree to the bit, wherever an element stands in its batch") {
  const std::vector<float> all = priorities(1000, 5);
  std::vector<float> expected(all.size());
  kernels().back()->power(all.data(), expected.data(), all.size(), 1e-6f, 0.6f);
  for (const Kernel* kernel : kernels()) {
    INFO(std::string(kernel->name));
    for (const size_t count : {1u, 3u, 8u, 17u, 100u}) {
      for (size_t begin = 0; begin + count <= 300; begin += 7) {
        std::vector<float> masses(count);
        kernel->power(all.data() + begin, masses.data(), count, 1e-6f, 0.6f);
        REQUIRE(std::equal(masses.begin(), masses.end(), expected.begin() + begin));
      }
    }
    for (const size_t count : {1u, 2u, 5u, 64u, 513u}) {
      std::vector<double> targets(count), same_targets(count);
      kernel->stratify(count, 12.3, targets.data(), count);
      kernels().back()->stratify(count, 12.3, same_targets.data(), count);
      CHECK(targets == same_targets);
      for (size_t i = 0; i < count; ++i) {
        const double part = 12.3 / static_cast<double>(count);
        CHECK(targets[i] >= static_cast<double>(i) * part);
        CHECK(targets[i] <= static_cast<double>(i + 1) * part);
      }
    }
  }
}

TEST_CASE("trees of all kernels have the same sums and find the same leaves") {
  for (const uint32_t leaves : {1u, 16u, 17u, 300u, 5000u, 70001u}) {
    INFO("leaves ", leaves);
    std::vector<SumTree> trees;
    for (const Kernel* kernel : kernels()) trees.emplace_back(leaves, *kernel);
    Random random(leaves);
    for (int round = 0; round < 20; ++round) {
      std::vector<uint32_t> some(1 + random.below(1000));
      std::vector<float> masses(some.size());
      for (size_t i = 0; i < some.size(); ++i) {
        some[i] = static_cast<uint32_t>(random.below(leaves));
        masses[i] = random.below(4) == 0 && i > 0
                        ? 0.0f
                        : static_cast<float>(std::pow(10.0, 12 * random.uniform() - 6));
      }
      for (SumTree& tree : trees) tree.set(some, masses);
      const double total = trees[0].total();
      if (total == 0) continue;  // of few leaves all may have been cleared
      std::vector<double> targets(777);
      for (double& target : targets) target = random.uniform() * total;
      std::ranges::sort(targets);
      std::vector<uint32_t> expected(targets.size()), found(targets.size());
      for (SumTree& tree : trees) {
        REQUIRE(tree.total() == total);
        std::vector<double> copy = targets;
        tree.find(copy, &tree == &trees[0] ? expected : found);
        if (&tree != &trees[0]) REQUIRE(found == expected);
      }
    }
  }
}

TEST_CASE("batches of every size are set and found alike by all kernels, however hard") {
  std::vector<size_t> sizes(70);
  std::iota(sizes.begin(), sizes.end(), 1u);
  sizes.push_back(512);
  for (const Masses kind : kMasses) {
    for (const uint32_t leaves : {1000u, 20000u}) {
      std::vector<SumTree> trees;
      for (const Kernel* kernel : kernels()) trees.emplace_back(leaves, *kernel);
      Random random(leaves);
      for (const size_t n : sizes) {
        INFO("masses ", static_cast<int>(kind), " leaves ", leaves, " batch ", n);
        std::vector<uint32_t> some(n);
        std::vector<float> masses(n);
        for (size_t i = 0; i < n; ++i) {
          some[i] = static_cast<uint32_t>(random.below(leaves));
          masses[i] = i == 0 ? FLT_MIN : mass_of(kind, random);
        }
        for (SumTree& tree : trees) tree.set(some, masses);
        const std::vector<double> targets = hard_targets(trees.back(), leaves, n, random);
        std::vector<uint32_t> expected(n), found(n);
        std::vector<double> scratch = targets;
        trees.back().find(scratch, expected);
        for (const SumTree& tree : trees) {
          REQUIRE(tree.total() == trees.back().total());
          scratch = targets;
          tree.find(scratch, found);
          REQUIRE(found == expected);
        }
      }
    }
  }
}

TEST_CASE("a seed draws the same batches on every kernel") {
  std::map<std::string, std::pair<std::vector<uint32_t>, std::vector<float>>> drawn;
  for (const Kernel* kernel : kernels()) {
    const KernelChoice choice(kernel->name);
    const auto sampler = make_sampler({}, 10000);
    Random random(6);
    for (uint32_t slot = 0; slot < 10000; slot += 3) {
      sampler->insert(slot, static_cast<float>(random.uniform()));
    }
    auto& [slots, probabilities] = drawn[std::string(kernel->name)];
    for (const size_t n : {1u, 2u, 33u, 512u, 3000u}) {
      std::vector<uint32_t> some(n);
      std::vector<float> theirs(n);
      sampler->draw(some, theirs, random);
      slots.insert(slots.end(), some.begin(), some.end());
      probabilities.insert(probabilities.end(), theirs.begin(), theirs.end());
    }
  }
  REQUIRE(drawn.size() == kernels().size());
  for (const auto& [name, batches] : drawn) {
    INFO(name);
    CHECK(batches == drawn.at("portable"));
  }
}

TEST_CASE("the environment chooses a kernel, and an unknown one is refused") {
  for (const Kernel* kernel : kernels()) {
    const KernelChoice choice(kernel->name);
    CHECK(chosen_kernel().name == kernel->name);
  }
  const KernelChoice choice("mmx");
  CHECK_THROWS_WITH_AS(chosen_kernel(), doctest::Contains("mmx"), Error);
  CHECK_THROWS_AS(make_sampler({}, 16), Error);
}

}  // namespace drlnet::test
