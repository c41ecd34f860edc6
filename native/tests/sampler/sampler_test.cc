// One suite over every registered sampler: what a table relies on, whatever draws.
#include "sampler/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sampler/statistics.h"

namespace drlnet::test {
namespace {

SamplerSpec spec_of(const SamplerKind& kind, double exponent = 1) {
  SamplerSpec spec;
  spec.name = kind.name;
  spec.priority_exponent = exponent;
  return spec;
}

bool is_amper(const SamplerKind& kind) { return kind.name.starts_with("amper"); }
bool is_curriculum(const SamplerKind& kind) { return kind.name == "curriculum"; }
bool weighs(const SamplerKind& kind) {
  return kind.name == "prioritized" || is_curriculum(kind) || is_amper(kind);
}
// Whether an item's chance is a function of what is there, and not of a batch and those before it.
bool is_steady(const SamplerKind& kind) { return !is_amper(kind) && !is_curriculum(kind); }
// How far a stored priority may be off: AMPER's keep 8 bits of mantissa.
double precision(const SamplerKind& kind) { return is_amper(kind) ? 0.0021 : 1e-12; }

// Priorities of the random contents below; items of one priority are alike to every sampler.
constexpr uint32_t kLevels = 8;
float level_priority(uint32_t level) { return static_cast<float>(level) + 0.25f; }

// A sampler with random content, and what it should hold.
struct Filled {
  std::unique_ptr<Sampler> sampler;
  std::map<uint32_t, float> present;

  Filled(const SamplerKind& kind, uint32_t leaves, uint64_t seed, double exponent = 1)
      : sampler(make_sampler(spec_of(kind, exponent), leaves)) {
    Random random(seed);
    for (int i = 0; i < 6 * static_cast<int>(leaves); ++i) {
      const auto slot = static_cast<uint32_t>(random.below(leaves));
      const float priority = level_priority(static_cast<uint32_t>(random.below(kLevels)));
      const bool is_present = present.contains(slot);
      if (!is_present) {
        sampler->insert(slot, priority);
        present[slot] = priority;
      } else if (random.below(2) == 0) {
        sampler->remove(slot);
        present.erase(slot);
      } else {
        sampler->update({&slot, 1}, {&priority, 1});
        present[slot] = priority;
      }
    }
  }

  // For kinds whose reported probability is a function of the content alone.
  double exact(const SamplerKind& kind, uint32_t slot) const {
    if (!weighs(kind)) return 1.0 / static_cast<double>(present.size());
    double total = 0;
    for (const auto& [_, priority] : present) total += static_cast<double>(priority);
    return static_cast<double>(present.at(slot)) / total;
  }
};

}  // namespace

TEST_CASE("what is stored of a priority is what was given, to the sampler's precision") {
  for (const SamplerKind& kind : sampler_kinds()) {
    INFO(std::string(kind.name));
    const Filled filled(kind, 300, 4);
    for (const auto& [slot, priority] : filled.present) {
      const float expected = weighs(kind) ? priority : 1;
      CHECK(filled.sampler->stored(slot) ==
            doctest::Approx(expected).epsilon(std::max(precision(kind), 1e-6)));
    }
  }
}

TEST_CASE("single draws follow the exact probabilities") {
  for (const SamplerKind& kind : sampler_kinds()) {
    if (!is_steady(kind)) continue;  // their frequencies: amper_test.cc, curriculum_test.cc
    for (const uint32_t leaves : {2u, 5u, 16u, 17u, 300u, 5000u}) {
      INFO(std::string(kind.name), " leaves ", leaves);
      const Filled filled(kind, leaves, leaves);
      if (filled.present.empty()) continue;
      CHECK(filled.sampler->size() == filled.present.size());
      Random random(99 + leaves);
      const int draws = 40 * static_cast<int>(leaves) + 2000;
      std::map<uint32_t, double> counts;
      for (int i = 0; i < draws; ++i) {
        uint32_t slot = 0;
        float probability = 0;
        filled.sampler->draw({&slot, 1}, {&probability, 1}, random);
        REQUIRE(filled.present.contains(slot));
        REQUIRE(probability == doctest::Approx(filled.exact(kind, slot)).epsilon(1e-5));
        ++counts[slot];
      }
      double statistic = 0;
      for (const auto& [slot, _] : filled.present) {
        const double expected = filled.exact(kind, slot) * draws;
        statistic += (counts[slot] - expected) * (counts[slot] - expected) / expected;
      }
      if (filled.present.size() == 1) continue;
      CHECK(statistic < chi_square_limit(static_cast<double>(filled.present.size() - 1)));
    }
  }
}

// What importance weights rest on, whatever the sampler: the mean over draws of
// [x was drawn] / probability is 1 for each x.
TEST_CASE("reported probabilities weigh every item alike") {
  for (const SamplerKind& kind : sampler_kinds()) {
    for (const uint32_t leaves : {1u, 2u, 5u, 17u, 300u}) {
      INFO(std::string(kind.name), " leaves ", leaves);
      const Filled filled(kind, leaves, leaves + 2);
      REQUIRE(!filled.present.empty());
      std::array<double, kLevels> items{}, sums{}, squares{};
      for (const auto& [_, priority] : filled.present) ++items[static_cast<size_t>(priority)];
      Random random(7 + leaves);
      constexpr int kDraws = 60000;
      for (int i = 0; i < kDraws; ++i) {
        uint32_t slot = 0;
        float probability = 0;
        filled.sampler->draw({&slot, 1}, {&probability, 1}, random);
        REQUIRE(filled.present.contains(slot));
        REQUIRE(probability > 0);
        REQUIRE(probability <= 1.000001f);
        const auto level = static_cast<size_t>(filled.present.at(slot));
        sums[level] += 1 / static_cast<double>(probability);
        squares[level] += 1 / static_cast<double>(probability) / static_cast<double>(probability);
      }
      for (uint32_t level = 0; level < kLevels; ++level) {
        INFO("priority ", level_priority(level));
        const double expected = items[level] * kDraws;
        CHECK(std::abs(sums[level] - expected) <= 6 * std::sqrt(squares[level]) + 1e-4 * expected);
      }
    }
  }
}

TEST_CASE("batches: no absent slot, honest probabilities, any size") {
  for (const SamplerKind& kind : sampler_kinds()) {
    const Filled filled(kind, 200, 3);
    Random random(1);
    for (const size_t n : {1u, 63u, 64u, 65u, 512u, 2000u}) {  // larger than the table, too
      INFO(std::string(kind.name), " batch ", n);
      std::vector<uint32_t> slots(n);
      std::vector<float> probabilities(n);
      filled.sampler->draw(slots, probabilities, random);
      for (size_t i = 0; i < n; ++i) {
        REQUIRE(filled.present.contains(slots[i]));
        if (!is_steady(kind)) continue;
        CHECK(probabilities[i] == doctest::Approx(filled.exact(kind, slots[i])).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("a stratified batch draws each item as often as its mass says, to within two") {
  const SamplerKind& kind = sampler_kinds()[0];
  REQUIRE(kind.name == "prioritized");
  const Filled filled(kind, 300, 8);
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint32_t> slots(512);
    std::vector<float> probabilities(512);
    filled.sampler->draw(slots, probabilities, random);
    std::map<uint32_t, double> counts;
    for (const uint32_t slot : slots) ++counts[slot];
    for (const auto& [slot, _] : filled.present) {
      CHECK(std::abs(counts[slot] - 512 * filled.exact(kind, slot)) < 2);
    }
  }
}

TEST_CASE("removal and insertion move the mass") {
  for (const SamplerKind& kind : sampler_kinds()) {
    INFO(std::string(kind.name));
    const auto sampler = make_sampler(spec_of(kind), 100);
    CHECK(sampler->mass() == 0);
    sampler->insert(7, 1);
    sampler->insert(99, 1);
    CHECK(sampler->mass() == 2);
    sampler->remove(7);
    CHECK(sampler->mass() == 1);
    CHECK(sampler->size() == 1);
    Random random(1);
    std::vector<uint32_t> slots(50);
    std::vector<float> probabilities(50);
    sampler->draw(slots, probabilities, random);
    for (size_t i = 0; i < 50; ++i) {
      CHECK(slots[i] == 99);
      CHECK(probabilities[i] == 1);
    }
    sampler->remove(99);
    CHECK(sampler->mass() == 0);
    CHECK(sampler->size() == 0);
    sampler->insert(0, 1);
    sampler->draw(slots, probabilities, random);
    CHECK(slots[49] == 0);
  }
}

TEST_CASE("priorities over 12 orders of magnitude in one sampler") {
  for (const SamplerKind& kind : sampler_kinds()) {
    if (!weighs(kind)) continue;
    INFO(std::string(kind.name));
    SamplerSpec spec = spec_of(kind, 1);
    spec.priority_floor = 1e-9;
    const auto sampler = make_sampler(spec, 1 << 12);
    std::vector<double> exact(1 << 12);
    double total = 0;
    for (uint32_t slot = 0; slot < exact.size(); ++slot) {
      const auto priority = static_cast<float>(std::pow(10.0, -6.0 + 12.0 * (slot % 13) / 12.0));
      sampler->insert(slot, priority);
      exact[slot] = static_cast<double>(priority);
      total += exact[slot];
    }
    CHECK(sampler->mass() == doctest::Approx(total).epsilon(std::max(precision(kind), 1e-6)));
    // What remains after the heavy ones are gone is exact, not their rounding.
    double light = 0;
    for (uint32_t slot = 0; slot < exact.size(); ++slot) {
      if (slot % 13 == 0)
        light += exact[slot];
      else
        sampler->remove(slot);
    }
    CHECK(sampler->mass() == doctest::Approx(light).epsilon(std::max(precision(kind), 1e-6)));
    Random random(4);
    std::vector<uint32_t> slots(4096);
    std::vector<float> probabilities(4096);
    sampler->draw(slots, probabilities, random);
    for (const uint32_t slot : slots) REQUIRE(slot % 13 == 0);
  }
}

TEST_CASE("no mass is left among slots without items, however other sums are rounded") {
  const auto sampler = make_sampler(spec_of(sampler_kinds()[0]), 5000);
  Random random(3);
  for (uint32_t slot = 0; slot < 5000; ++slot) {
    const auto priority = static_cast<float>(std::pow(10, 8 * random.uniform() - 4));
    if (slot % 100 < 50) sampler->insert(slot, priority);
  }
  for (uint32_t first = 50; first < 5000; first += 100) {
    CHECK(sampler->mass_among(first, first + 50) == 0);
  }
}

TEST_CASE("stored is max(p, floor)^alpha, and never 0 or infinite") {
  for (const SamplerKind& kind : sampler_kinds()) {
    if (!weighs(kind)) continue;
    INFO(std::string(kind.name));
    SamplerSpec spec = spec_of(kind, 0.5);
    spec.priority_floor = 1e-4;
    const auto sampler = make_sampler(spec, 4);
    sampler->insert(0, 9);
    CHECK(sampler->mass() == doctest::Approx(3));
    sampler->insert(1, 0);
    CHECK(sampler->mass() == doctest::Approx(3.01));
    spec.priority_exponent = 4;
    spec.priority_floor = 1e-30;
    const auto steep = make_sampler(spec, 4);
    steep->insert(0, 0);
    CHECK(steep->mass() > 0);
    steep->insert(1, 3e38f);
    CHECK(std::isfinite(steep->mass()));
    spec.priority_exponent = 0;
    const auto flat = make_sampler(spec, 4);
    flat->insert(0, 0);
    flat->insert(1, 1e6f);
    CHECK(flat->mass() == 2);
  }
}

TEST_CASE("of a slot that an update names twice the later priority holds") {
  for (const SamplerKind& kind : sampler_kinds()) {
    INFO(std::string(kind.name));
    const auto sampler = make_sampler(spec_of(kind), 8);
    sampler->insert(3, 1);
    sampler->insert(5, 2);
    const std::array<uint32_t, 4> slots = {3, 5, 3, 3};
    const std::array<float, 4> priorities = {16, 4, 1, 8};
    sampler->update(slots, priorities);
    CHECK(sampler->size() == 2);
    CHECK(sampler->mass() == (weighs(kind) ? 12 : 2));
  }
}

TEST_CASE("all priorities 0 or all alike: every item is drawn, with probability 1 / n") {
  for (const SamplerKind& kind : sampler_kinds()) {
    for (const float priority : {0.0f, 3.0f}) {
      INFO(std::string(kind.name), " priority ", priority);
      const auto sampler = make_sampler(spec_of(kind), 40);
      for (uint32_t slot = 3; slot < 40; slot += 3) sampler->insert(slot, priority);
      Random random(11);
      std::vector<uint32_t> slots(1000);
      std::vector<float> probabilities(1000);
      std::map<uint32_t, int> counts;
      sampler->draw(slots, probabilities, random);
      for (size_t i = 0; i < slots.size(); ++i) {
        ++counts[slots[i]];
        REQUIRE(slots[i] % 3 == 0);
        REQUIRE(slots[i] > 0);
        if (kind.name == "amper-k") continue;  // its set may be a part of the equally near
        REQUIRE(probabilities[i] == doctest::Approx(1.0 / 13));
      }
      if (kind.name != "amper-k") CHECK(counts.size() == 13);
    }
  }
}

TEST_CASE("fifo draws in order of insertion, each once, then again from the oldest") {
  SamplerSpec spec;
  spec.name = "fifo";
  const auto sampler = make_sampler(spec, 10);
  Random random(1);
  const auto draw = [&](size_t n) {
    std::vector<uint32_t> slots(n);
    std::vector<float> probabilities(n);
    sampler->draw(slots, probabilities, random);
    return slots;
  };
  for (const uint32_t slot : {5u, 2u, 8u, 1u}) sampler->insert(slot, 1);
  CHECK(draw(2) == std::vector<uint32_t>{5, 2});
  sampler->remove(8);  // the next in turn
  sampler->insert(9, 1);
  CHECK(draw(2) == std::vector<uint32_t>{1, 9});
  sampler->insert(3, 1);  // new: before those that were drawn
  CHECK(draw(4) == std::vector<uint32_t>{3, 5, 2, 1});
}

TEST_CASE("a sampler that is left time in between draws what one without it draws") {
  constexpr uint32_t kLeaves = 5000;
  constexpr std::array<size_t, 5> kBatches = {32, 32, 512, 1, 32};
  for (const SamplerKind& kind : sampler_kinds()) {
    INFO(std::string(kind.name));
    const Filled hurried(kind, kLeaves, 11), settled(kind, kLeaves, 11);
    std::vector<std::byte> rows(size_t{kLeaves} * 40);
    settled.sampler->fetch_along(rows.data(), 40);
    std::vector<uint32_t> present;
    for (const auto& [slot, _] : settled.present) present.push_back(slot);
    Random choices(3), first(5), second(5);
    for (int round = 0; round < 40; ++round) {
      // Some updates find no room beside what is put off already, and some have none at all.
      // Between some draws there is none, between a few nothing.
      std::vector<uint32_t> slots(round % 3 == 0 ? 0 : choices.below(round % 4 == 0 ? 2000 : 300));
      std::vector<float> priorities(slots.size());
      for (uint32_t& slot : slots) slot = present[choices.below(present.size())];
      for (float& priority : priorities)
        priority = level_priority(static_cast<uint32_t>(choices.below(kLevels)));
      const uint32_t moved = present[choices.below(present.size())];
      for (const Filled* filled : {&hurried, &settled}) {
        filled->sampler->update(slots, priorities);
        if (round % 6 == 0) continue;
        filled->sampler->remove(moved);
        filled->sampler->insert(moved, 2);
      }
      // Left no time, a little, or all that it wants.
      const uint64_t parts = choices.below(5);
      for (uint64_t part = 0; part < parts && settled.sampler->work_ahead(second); ++part) {
      }
      CHECK(hurried.sampler->mass() == settled.sampler->mass());
      const size_t batch = kBatches[static_cast<size_t>(round) % kBatches.size()];
      std::vector<uint32_t> drawn(batch), also_drawn(batch);
      std::vector<float> probabilities(batch), also_probabilities(batch);
      hurried.sampler->draw(drawn, probabilities, first);
      settled.sampler->draw(also_drawn, also_probabilities, second);
      CHECK(drawn == also_drawn);
      CHECK(probabilities == also_probabilities);
      while (settled.sampler->work_ahead(second)) {
      }
      CHECK(first == second);
    }
  }
}

TEST_CASE("a sampler makes the next batch ready in one part") {
  for (const SamplerKind& kind : sampler_kinds()) {
    INFO(std::string(kind.name));
    const Filled filled(kind, 100, 11);
    Random random(5);
    std::vector<uint32_t> drawn(32);
    std::vector<float> probabilities(32);
    for (int round = 0; round < 3; ++round) {
      filled.sampler->draw(drawn, probabilities, random);
      CHECK(!filled.sampler->work_ahead(random));
    }
  }
}

}  // namespace drlnet::test
