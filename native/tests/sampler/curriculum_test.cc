// The curriculum sampler against a naive one, which reckons every item's chance anew.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "sampler/sampler.h"
#include "sampler/statistics.h"

namespace drlnet::test {
namespace {

SamplerSpec spec_of(std::map<std::string, double> options = {}, double exponent = 1) {
  return {.name = "curriculum", .priority_exponent = exponent, .options = std::move(options)};
}

// A sampler and what its equations say (curriculum.cc).
struct Both {
  struct Item {
    double error = 0;
    int draws = 0;
  };

  Both(uint32_t leaves, double fresh_share, double coverage_of, double exponent_of = 1)
      : fresh(fresh_share),
        coverage(coverage_of),
        exponent(exponent_of),
        sampler(
            make_sampler(spec_of({{"fresh", fresh}, {"coverage", coverage}}, exponent), leaves)) {}

  void insert(uint32_t slot, float priority) {
    sampler->insert(slot, priority);
    items[slot] = {std::pow(static_cast<double>(priority), exponent), 0};
  }
  void remove(uint32_t slot) {
    sampler->remove(slot);
    items.erase(slot);
  }
  void update(uint32_t slot, float priority) {
    sampler->update({&slot, 1}, {&priority, 1});
    items[slot].error = std::pow(static_cast<double>(priority), exponent);
  }
  double stored(const Item& item) const { return item.error * std::pow(1 + item.draws, -coverage); }
  std::map<uint32_t, double> chances(size_t batch) const {
    double mass = 0, count = 0;
    for (const auto& [_, item] : items) {
      mass += stored(item);
      count += item.draws == 0;
    }
    const double share = std::min(fresh, count / static_cast<double>(batch));
    std::map<uint32_t, double> result;
    for (const auto& [slot, item] : items) {
      result[slot] = (1 - share) * stored(item) / mass + (item.draws == 0 ? share / count : 0);
    }
    return result;
  }
  // A batch, with its chances checked, and counted.
  std::vector<uint32_t> draw(size_t batch, Random& random) {
    const auto expected = chances(batch);
    std::vector<uint32_t> slots(batch);
    std::vector<float> probabilities(batch);
    sampler->draw(slots, probabilities, random);
    for (size_t i = 0; i < batch; ++i) {
      REQUIRE(items.contains(slots[i]));
      REQUIRE(probabilities[i] == doctest::Approx(expected.at(slots[i])).epsilon(1e-5));
    }
    for (const uint32_t slot : slots) ++items[slot].draws;
    return slots;
  }

  double fresh, coverage, exponent;
  std::unique_ptr<Sampler> sampler;
  std::map<uint32_t, Item> items;
};

}  // namespace

TEST_CASE("what is reported is what the equations say, whatever comes, goes and changes") {
  for (const double fresh : {0.0, 0.25, 0.95}) {
    for (const double coverage : {0.0, 0.5, 2.0}) {
      CAPTURE(fresh);
      CAPTURE(coverage);
      Both both(200, fresh, coverage, 0.7);
      Random random(5);
      for (int round = 0; round < 400; ++round) {
        for (int i = 0; i < 6; ++i) {
          const auto slot = static_cast<uint32_t>(random.below(200));
          const auto priority = static_cast<float>(random.uniform() + 0.01);
          if (!both.items.contains(slot)) {
            both.insert(slot, priority);
          } else if (i % 2 == 0) {
            both.remove(slot);
          } else {
            both.update(slot, priority);
          }
        }
        if (both.items.empty()) continue;
        both.draw(1 + random.below(round % 5 == 0 ? 300 : 20), random);
        double mass = 0;
        for (const auto& [slot, item] : both.items) {
          REQUIRE(both.sampler->stored(slot) == doctest::Approx(both.stored(item)).epsilon(1e-5));
          mass += both.stored(item);
        }
        REQUIRE(both.sampler->mass() == doctest::Approx(mass).epsilon(1e-5));
        REQUIRE(both.sampler->size() == both.items.size());
      }
    }
  }
}

TEST_CASE("each place of a batch follows chances that draws, updates and newcomers move") {
  constexpr uint32_t kSlots = 24;
  for (const size_t batch : {1u, 4u, 9u}) {
    CAPTURE(batch);
    Both both(kSlots, 0.5, 1);
    for (uint32_t slot = 0; slot < kSlots; ++slot)
      both.insert(slot, 1 + static_cast<float>(slot % 5));
    std::vector<std::vector<double>> counts(batch, std::vector<double>(kSlots));
    std::vector<double> expected(kSlots);
    Random random(batch), changes(3);
    const int rounds = draws(20000);
    for (int round = 0; round < rounds; ++round) {
      for (const auto& [slot, chance] : both.chances(batch)) expected[slot] += chance;
      const auto slots = both.draw(batch, random);
      for (size_t place = 0; place < batch; ++place) ++counts[place][slots[place]];
      // Slots that change by themselves, whatever is drawn.
      const auto slot = static_cast<uint32_t>(changes.below(kSlots));
      const auto priority = 1 + static_cast<float>(changes.below(5));
      if (round % 2 == 0) {
        both.remove(slot);
        both.insert(slot, priority);
      } else {
        both.update(slot, priority);
      }
    }
    for (const auto& count : counts) CHECK(chi_square(count, expected) < chi_square_limit(kSlots));
  }
}

TEST_CASE("what is fresh is drawn first, and each once before any is drawn again for it") {
  constexpr uint32_t kSlots = 120;
  Both both(2 * kSlots, 0.95, 0);
  Random random(2);
  for (uint32_t slot = 0; slot < kSlots; ++slot) both.insert(slot, 1000);  // drawn often, later
  while (std::ranges::any_of(both.items, [](const auto& one) { return one.second.draws == 0; })) {
    both.draw(32, random);
  }
  for (uint32_t slot = kSlots; slot < 2 * kSlots; ++slot) both.insert(slot, 1e-3f);
  std::set<uint32_t> seen;
  for (int round = 0; round < 3; ++round) {
    const size_t before = seen.size();
    for (const uint32_t slot : both.draw(32, random)) {
      if (slot >= kSlots) seen.insert(slot);
    }
    CHECK(seen.size() >= before + 30);  // 30.4 of 32 places, rounded either way
  }
  while (seen.size() < kSlots) {
    for (const uint32_t slot : both.draw(32, random)) {
      if (slot >= kSlots) seen.insert(slot);
    }
  }
}

TEST_CASE("of more fresh items than the pool holds, too, chances are true") {
  constexpr uint32_t kLeaves = 100'000;
  const auto sampler = make_sampler(spec_of({{"fresh", 0.5}}), kLeaves);
  for (uint32_t slot = 0; slot < kLeaves; ++slot) {
    sampler->insert(slot, 1 + static_cast<float>(slot % 3));
  }
  Random random(1);
  double sum = 0, squares = 0;
  constexpr int kBatches = 20;
  std::vector<uint32_t> slots(4096);
  std::vector<float> probabilities(4096);
  for (int i = 0; i < kBatches; ++i) {
    sampler->draw(slots, probabilities, random);
    for (const float probability : probabilities) {
      const double weight = 1 / static_cast<double>(probability);
      sum += weight;
      squares += weight * weight;
    }
  }
  const double expected = double{kLeaves} * kBatches * 4096;
  CHECK(std::abs(sum - expected) < 6 * std::sqrt(squares));
}

TEST_CASE("useless is what was drawn and has fallen far under the mean") {
  const auto sampler = make_sampler(spec_of({{"useless", 0.1}, {"fresh", 0}}), 10);
  sampler->insert(1, 1e-3f);
  sampler->insert(2, 1);
  sampler->insert(3, 1);
  const std::vector<uint32_t> all = {1, 2, 3};
  const std::vector<float> same = {1e-3f, 1, 1}, low = {1e-3f, 1e-3f, 1};
  sampler->update(all, same);
  CHECK(sampler->take_useless().empty());  // none was drawn
  Random random(1);
  std::vector<uint32_t> slots(4);
  std::vector<float> probabilities(4);
  sampler->draw(slots, probabilities, random);
  REQUIRE(std::ranges::count(slots, 1) == 0);
  REQUIRE(std::ranges::count(slots, 2) == 2);
  sampler->update(all, same);
  CHECK(sampler->take_useless().empty());
  sampler->update(all, low);
  const auto useless = sampler->take_useless();
  CHECK(std::vector<uint32_t>(useless.begin(), useless.end()) == std::vector<uint32_t>{2});
  CHECK(sampler->take_useless().empty());
  const auto keeping = make_sampler(spec_of(), 10);
  keeping->insert(1, 1);
  keeping->draw(slots, probabilities, random);
  keeping->update({all.data(), 1}, {low.data(), 1});
  CHECK(keeping->take_useless().empty());
}

TEST_CASE("the curriculum's options have limits") {
  for (const auto& [name, value] : {std::pair<const char*, double>{"fresh", 1.0},
                                    {"fresh", -0.1},
                                    {"coverage", 4.5},
                                    {"coverage", std::nan("")},
                                    {"useless", 1}}) {
    try {
      make_sampler(spec_of({{name, value}}), 10);
      FAIL(name);
    } catch (const Error& error) {
      CHECK(error.status() == Status::config);
      CHECK(error.cause().find(name) != std::string::npos);
      CHECK(error.remedy().find("from 0 to") != std::string::npos);
    }
  }
}

}  // namespace drlnet::test
