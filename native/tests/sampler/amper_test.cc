// AMPER's candidate sets and frequencies against a naive search of all priorities, O(n) per group.
#include "sampler/amper.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "sampler/statistics.h"

namespace drlnet::test {
namespace {

constexpr const char* kNames[] = {"amper-k", "amper-fr", "amper-fr-prefix"};

double rounded(float priority) {
  return PriorityBuckets::value_of(PriorityBuckets::bucket_of(priority));
}

SamplerSpec spec_of(const std::string& name, double groups, double scale) {
  SamplerSpec spec;
  spec.name = name;
  spec.priority_exponent = 1;
  spec.priority_floor = 1e-9;
  spec.options = {{"groups", groups}, {"scale", scale}};
  return spec;
}

// How many items of each priority are in the candidate set; those of one priority are alike.
using Set = std::map<double, uint64_t>;

// The candidate sets of all variants, by their definition.
class Naive {
 public:
  Naive(std::vector<double> priorities, const SamplerSpec& spec)
      : priorities_(std::move(priorities)),
        name_(spec.name),
        groups_(static_cast<uint32_t>(spec.options.at("groups"))),
        scale_(spec.options.at("scale")),
        highest_(*std::max_element(priorities_.begin(), priorities_.end())) {
    for (const double priority : priorities_) ++all_[priority];
    if (name_ == "amper-fr-prefix") {
      const double size = block_at(highest_);
      highest_ = (std::floor(highest_ / size) + 1) * size;
    }
  }

  // Representative values as a sampler draws them from `random`. Empty: none fits. Where groups
  // share a priority of which only a part is in, the union is of unknown size: counted as -1.
  Set search(Random& random) const {
    const double width = highest_ / groups_;
    Set found;
    for (uint32_t i = 0; i < groups_; ++i) {
      const uint32_t group = name_ == "amper-k" ? i : groups_ - 1 - i;
      const double v = (group + random.uniform()) * width;
      const Set here = name_ == "amper-k" ? nearest(group, v, random) : within(v);
      for (const auto& [priority, count] : here) {
        const bool parts = found.contains(priority) && count < all_.at(priority) &&
                           found[priority] < all_.at(priority);
        found[priority] = parts ? kUnknown : std::max(found[priority], count);
      }
    }
    return found;
  }

  const Set& all() const { return all_; }
  static constexpr uint64_t kUnknown = uint64_t(-1) >> 1;

 private:
  double block_at(double v) const {
    return std::exp2(std::floor(std::log2(2 * scale_ / groups_ * v)));
  }

  Set within(double v) const {
    const double radius = scale_ / groups_ * v, block = block_at(v);
    Set found;
    for (const auto& [priority, count] : all_) {
      const bool is_near = name_ == "amper-fr"
                               ? std::abs(priority - v) <= radius
                               : std::floor(priority / block) == std::floor(v / block);
      if (is_near) found[priority] = count;
    }
    return found;
  }

  Set nearest(uint32_t group, double v, Random& random) const {
    const double width = highest_ / groups_;
    const auto members = std::count_if(priorities_.begin(), priorities_.end(), [&](double p) {
      return p >= group * width && (p < (group + 1) * width || group + 1 == groups_);
    });
    const double wanted = scale_ * static_cast<double>(members) / highest_ * v;
    auto left = static_cast<uint64_t>(
        std::min(static_cast<double>(priorities_.size()), std::floor(wanted + random.uniform())));
    std::vector<std::pair<double, double>> by_distance;
    for (const auto& [priority, _] : all_)
      by_distance.emplace_back(std::abs(priority - v), priority);
    std::sort(by_distance.begin(), by_distance.end());
    Set found;
    for (const auto& [_, priority] : by_distance) {
      if (left == 0) break;
      const uint64_t count = all_.at(priority);
      if (left < count) random.below(count);  // which of them: the sampler's business
      found[priority] = std::min(left, count);
      left -= found[priority];
    }
    return found;
  }

  std::vector<double> priorities_;
  std::string name_;
  uint32_t groups_;
  double scale_, highest_;
  Set all_;
};

// Contents that have made trouble for priority indexes.
std::vector<float> content(const std::string& what, uint32_t n, Random& random) {
  std::vector<float> priorities(n);
  for (float& priority : priorities) {
    const double u = random.uniform();
    if (what == "exponential") priority = static_cast<float>(-std::log1p(-u));
    if (what == "12 orders") priority = static_cast<float>(std::pow(10, 12 * u - 6));
    if (what == "two clusters") priority = u < 0.9 ? 0.01f + static_cast<float>(u) * 1e-4f : 5.0f;
    if (what == "all alike") priority = 1.5f;
    if (what == "few values") priority = 1.0f + static_cast<float>(random.below(4));
    if (what == "many zeros") priority = u < 0.6 ? 0.0f : static_cast<float>(u);
  }
  return priorities;
}
constexpr const char* kContents[] = {"exponential", "12 orders",  "two clusters",
                                     "all alike",   "few values", "many zeros"};

struct Setting {
  double groups, scale;
};
constexpr Setting kSettings[] = {{1, 0.25}, {4, 1}, {20, 1}, {20, 0.1}, {64, 3}};

}  // namespace

TEST_CASE("candidate sets are those of a naive search") {
  for (const std::string name : kNames) {
    for (const std::string what : kContents) {
      for (const auto [groups, scale] : kSettings) {
        for (const uint32_t n : {1u, 2u, 30u, 400u}) {
          INFO(name, ", ", what, ", n ", n, ", groups ", groups, ", scale ", scale);
          Random contents(n);
          const std::vector<float> priorities = content(what, n, contents);
          SamplerSpec spec = spec_of(name, groups, scale);
          const auto sampler = make_sampler(spec, n);
          std::vector<double> stored(n);
          for (uint32_t slot = 0; slot < n; ++slot) {
            sampler->insert(slot, priorities[slot]);
            stored[slot] = rounded(std::max(priorities[slot], 1e-9f));
          }
          const Naive naive(stored, spec);
          for (uint64_t seed = 0; seed < 12; ++seed) {
            Random ours(seed), theirs(seed);
            Set expected = naive.search(theirs);
            if (expected.empty()) expected = naive.all();
            std::vector<uint32_t> slots(40 * n + 100);  // misses a candidate once in 10^17
            std::vector<float> probabilities(slots.size());
            sampler->draw(slots, probabilities, ours);
            std::sort(slots.begin(), slots.end());
            slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
            Set drawn;
            for (const uint32_t slot : slots) ++drawn[stored[slot]];
            REQUIRE(drawn.size() == expected.size());
            for (const auto& [priority, count] : expected) {
              if (count == Naive::kUnknown) {
                REQUIRE(drawn[priority] >= 1);
              } else {
                REQUIRE(drawn[priority] == count);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("frequencies are those of uniform draws from naive candidate sets") {
  for (const std::string name : kNames) {
    for (const std::string what : {"exponential", "two clusters", "few values"}) {
      for (const auto [groups, scale] : kSettings) {
        INFO(name, ", ", what, ", groups ", groups, ", scale ", scale);
        constexpr uint32_t kItems = 60;
        constexpr int kDraws = draws(20000);
        Random contents(5), random(6), other(7);
        const std::vector<float> priorities = content(what, kItems, contents);
        const SamplerSpec spec = spec_of(name, groups, scale);
        const auto sampler = make_sampler(spec, kItems);
        std::vector<double> stored(kItems);
        for (uint32_t slot = 0; slot < kItems; ++slot) {
          sampler->insert(slot, priorities[slot]);
          stored[slot] = rounded(std::max(priorities[slot], 1e-9f));
        }
        const Naive naive(stored, spec);
        std::map<double, double> counts, expected;
        int skipped = 0;
        for (int i = 0; i < kDraws; ++i) {
          Set set = naive.search(other);
          if (set.empty()) set = naive.all();
          double total = 0;
          for (const auto& [_, count] : set) total += static_cast<double>(count);
          if (total >= static_cast<double>(Naive::kUnknown)) {
            ++skipped;
            continue;
          }
          for (const auto& [priority, count] : set) {
            expected[priority] += static_cast<double>(count) / total;
          }
        }
        if (skipped > 0) continue;
        for (int i = 0; i < kDraws; ++i) {
          uint32_t slot = 0;
          float probability = 0;
          sampler->draw({&slot, 1}, {&probability, 1}, random);
          ++counts[stored[slot]];
        }
        for (const auto& [priority, mean] : expected) {
          CHECK(std::abs(counts[priority] - mean) < 6 * std::sqrt(2 * mean + 1) + 6);
        }
      }
    }
  }
}

TEST_CASE("reported probabilities weigh every item alike, over contents and settings") {
  for (const std::string name : kNames) {
    // Elsewhere the lightest items (amper-k: those inside a cluster) are too rare to be counted.
    for (const std::string what : {"exponential", "all alike", "few values"}) {
      for (const auto [groups, scale] : kSettings) {
        INFO(name, ", ", what, ", groups ", groups, ", scale ", scale);
        constexpr uint32_t kItems = 60;
        constexpr int kSets = 20000;
        Random contents(8), random(9);
        const std::vector<float> priorities = content(what, kItems, contents);
        const auto sampler = make_sampler(spec_of(name, groups, scale), kItems);
        for (uint32_t slot = 0; slot < kItems; ++slot) sampler->insert(slot, priorities[slot]);
        // By quarters of the items' ranks: of a single light item too few come up.
        std::vector<uint32_t> order(kItems);
        for (uint32_t i = 0; i < kItems; ++i) order[i] = i;
        std::stable_sort(order.begin(), order.end(),
                         [&](uint32_t a, uint32_t b) { return priorities[a] < priorities[b]; });
        std::vector<uint32_t> quarter(kItems);
        for (uint32_t i = 0; i < kItems; ++i) quarter[order[i]] = 4 * i / kItems;
        double sums[4] = {}, squares[4] = {};
        for (int i = 0; i < kSets; ++i) {
          uint32_t slot = 0;
          float probability = 0;
          sampler->draw({&slot, 1}, {&probability, 1}, random);
          const double weight = 1 / static_cast<double>(probability);
          sums[quarter[slot]] += weight;
          squares[quarter[slot]] += weight * weight;
        }
        for (int at = 0; at < 4; ++at) {
          const double expected = kItems / 4.0 * kSets;
          INFO("quarter ", at, ": ", sums[at] / expected);
          CHECK(std::abs(sums[at] - expected) <= 6 * std::sqrt(squares[at]));
        }
      }
    }
  }
}

TEST_CASE("10^6 random operations: content, mass and draws are those of a map") {
  for (const std::string name : kNames) {
    INFO(name);
    constexpr uint32_t kLeaves = 3000;
    const auto sampler = make_sampler(spec_of(name, 20, 1), kLeaves);
    std::map<uint32_t, double> present;
    Random random(12);
    for (int i = 0; i < 1'000'000; ++i) {
      const auto slot = static_cast<uint32_t>(random.below(kLeaves));
      // Now and then most of it goes, so that lists empty and pages return.
      const bool shrinks = i / 20000 % 5 == 4;
      const auto priority =
          static_cast<float>(i % 3 == 0 ? 1.0 : std::pow(10, 12 * random.uniform() - 6));
      const auto at = present.find(slot);
      if (at == present.end()) {
        if (shrinks) continue;
        sampler->insert(slot, priority);
        present[slot] = rounded(priority);
      } else if (shrinks || random.below(4) == 0) {
        sampler->remove(slot);
        present.erase(at);
      } else {
        sampler->update({&slot, 1}, {&priority, 1});
        at->second = rounded(priority);
      }
      if (i % 1000 != 0) continue;
      double mass = 0;
      for (const auto& [_, value] : present) mass += value;
      REQUIRE(sampler->size() == present.size());
      REQUIRE(sampler->mass() == doctest::Approx(mass).epsilon(1e-12));
      if (present.empty()) continue;
      std::vector<uint32_t> slots(64);
      std::vector<float> probabilities(64);
      sampler->draw(slots, probabilities, random);
      for (size_t j = 0; j < slots.size(); ++j) {
        REQUIRE(present.contains(slots[j]));
        REQUIRE(probabilities[j] > 0);
        REQUIRE(probabilities[j] <= 1.000001f);
      }
    }
  }
}

TEST_CASE("2^20 items of one priority: a list of many pages") {
  const auto sampler = make_sampler(spec_of("amper-fr", 20, 1), 1 << 20);
  for (uint32_t slot = 0; slot < 1 << 20; ++slot) sampler->insert(slot, 1);
  CHECK(sampler->mass() == 1 << 20);
  Random random(2);
  std::vector<uint32_t> slots(4096);
  std::vector<float> probabilities(4096);
  sampler->draw(slots, probabilities, random);
  double mean = 0;
  for (const uint32_t slot : slots) mean += slot / 4096.0;
  CHECK(std::abs(mean - (1 << 19)) < 6 * (1 << 20) / std::sqrt(12.0 * 4096));
  CHECK(probabilities[0] == 0x1p-20f);
  for (uint32_t slot = 0; slot < 1 << 20; ++slot) sampler->remove(slot);
  CHECK(sampler->size() == 0);
  CHECK(sampler->mass() == 0);
}

TEST_CASE("slots of equal priority are drawn alike") {
  for (const std::string name : kNames) {
    INFO(name);
    const auto sampler = make_sampler(spec_of(name, 20, 1), 100);
    for (uint32_t slot = 0; slot < 100; ++slot) sampler->insert(slot, slot < 80 ? 1.0f : 2.0f);
    Random random(3);
    std::vector<double> counts(100);
    constexpr int kDraws = 200000;
    for (int i = 0; i < kDraws; ++i) {
      uint32_t slot = 0;
      float probability = 0;
      sampler->draw({&slot, 1}, {&probability, 1}, random);
      ++counts[slot];
    }
    using Span = std::pair<size_t, size_t>;
    for (const auto& [begin, end] : {Span{0, 80}, Span{80, 100}}) {
      double mean = 0;
      for (size_t i = begin; i < end; ++i) mean += counts[i] / static_cast<double>(end - begin);
      for (size_t i = begin; i < end; ++i) {
        CHECK(std::abs(counts[i] - mean) < 5.5 * std::sqrt(mean));
      }
    }
  }
}

TEST_CASE("options out of range are refused, with a remedy") {
  for (const std::string name : kNames) {
    for (const auto [groups, scale] : {Setting{0, 1}, Setting{2.5, 0.1}, Setting{2000, 1},
                                       Setting{20, 0}, Setting{20, -1}, Setting{4, 1e6}}) {
      INFO(name, " groups ", groups, " scale ", scale);
      try {
        make_sampler(spec_of(name, groups, scale), 16);
        FAIL("accepted");
      } catch (const Error& error) {
        CHECK(error.status() == Status::config);
        CHECK(error.cause().find(name) != std::string::npos);
        CHECK(!error.remedy().empty());
      }
    }
  }
}

TEST_CASE("buckets: rounding is monotone and within 0.2%, borders agree with values") {
  uint32_t last = 0;
  for (double exponent = -37; exponent < 38; exponent += 0.001) {
    const auto priority = static_cast<float>(std::pow(10, exponent));
    const uint32_t bucket = PriorityBuckets::bucket_of(priority);
    REQUIRE(bucket >= last);
    last = bucket;
    const double value = PriorityBuckets::value_of(bucket);
    REQUIRE(std::abs(value / static_cast<double>(priority) - 1) < 0.00196);
    REQUIRE(PriorityBuckets::first_from(value) == bucket);
    REQUIRE(PriorityBuckets::first_from(std::nextafter(value, 1e300)) == bucket + 1);
  }
}

}  // namespace drlnet::test
