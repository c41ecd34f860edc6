// amper-fr and amper-fr-prefix (see amper.h): every bucket in an interval around each V_i. The
// buckets searched are those that are filled in the intervals; the items do not matter.
//
// P(x in C) = 1 - prod_i (1 - |A(x), group i| / width), where A(x) is the set of V whose interval
// holds x; P(C is empty) = prod_i (the part of group i in which no V's interval holds an item).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sampler/amper.h"

namespace drlnet {
namespace {

struct Interval {
  double begin, end;  // [begin, end), empty when end <= begin
};

// Intervals V (1 -+ radius), radius = scale / m.
class WithinRadius {
 public:
  explicit WithinRadius(double radius)
      : radius_(radius), least_(1 / (1 + radius)), most_(1 / (1 - radius)) {}

  Interval around(double v) const { return {v * (1 - radius_), v * (1 + radius_)}; }

  double range_end(double highest) const { return highest; }

  // Calls visit with the intervals of which A(x) is the disjoint union.
  template <typename Visit>
  void holders(double x, Visit visit) const {
    visit(Interval{x * least_, x * most_});
  }

  // The part of [begin, end) where around(v) holds no item.
  double gaps(const PriorityBuckets& buckets, double begin, double end) const {
    double gap = 0, reached = begin;
    uint32_t bucket = buckets.filled_from(PriorityBuckets::first_from(around(begin).begin));
    for (; bucket < PriorityBuckets::kCount && reached < end;
         bucket = buckets.filled_from(bucket + 1)) {
      const double x = PriorityBuckets::value_of(bucket);
      gap += std::max(0.0, std::min(end, x * least_) - reached);
      reached = std::max(reached, x * most_);
    }
    return gap + std::max(0.0, end - reached);
  }

 private:
  double radius_;
  double least_, most_;  // V whose interval holds x: x least_ to x most_
};

// 2^level, and its inverse rounded down, of normal numbers: std::ldexp and std::ilogb are calls.
double power_of_two(int level) {
  return std::bit_cast<double>(static_cast<uint64_t>(level + 1023) << 52);
}
int exponent_of(double value) {
  return static_cast<int>(std::bit_cast<uint64_t>(value) >> 52) - 1023;
}

// std::floor of what is not negative, which is a call, too, for CPUs at large.
double whole(double value) {
  return value < 0x1p53 ? static_cast<double>(static_cast<int64_t>(value)) : value;
}

// Aligned blocks of 2^b, 2^b <= 2 radius V < 2^(b + 1): b is constant over a level, an octave of V.
class SamePrefix {
 public:
  explicit SamePrefix(double radius) : diameter_(2 * radius) {}

  Interval around(double v) const { return block(v, level_of(v)); }

  double range_end(double highest) const { return around(highest).end; }

  template <typename Visit>
  void holders(double x, Visit visit) const {
    // A block of another level reaches x only from the level next to x's own: radius <= 1/4.
    const int own = level_of(x);
    for (int level = own - 1; level <= own + 1; ++level) {
      const Interval held = block(x, level), values = level_values(level);
      visit(Interval{std::max(held.begin, values.begin), std::min(held.end, values.end)});
    }
  }

  double gaps(const PriorityBuckets& buckets, double begin, double end) const {
    const uint32_t lowest = buckets.filled_from(0);
    // A block's end is below twice its values: under half the lowest item all blocks are empty.
    double v = std::clamp(PriorityBuckets::value_of(lowest) / 2, begin, end);
    double gap = v - begin;
    while (v < end) {
      const int level = level_of(v);
      const Interval here = block(v, level);
      const double level_end = std::min(end, level_values(level).end);
      const uint32_t found = buckets.filled_from(PriorityBuckets::first_from(here.begin));
      const double x = found < PriorityBuckets::kCount ? PriorityBuckets::value_of(found)
                                                       : std::numeric_limits<double>::infinity();
      // The next block that holds something is x's; those before it are gaps.
      const double next = std::clamp(block(x, level).begin, v, level_end);
      gap += next - v;
      const double after = next < level_end ? std::min(level_end, block(next, level).end) : next;
      v = after > v ? after : std::nextafter(v, end);  // past a level's rounded end
    }
    return gap;
  }

 private:
  int level_of(double v) const { return exponent_of(diameter_ * v); }
  Interval level_values(int level) const {
    const double begin = power_of_two(level) / diameter_;
    return {begin, 2 * begin};
  }
  static Interval block(double v, int level) {
    const double size = power_of_two(level);
    const double begin = whole(v / size) * size;
    return {begin, begin + size};
  }

  double diameter_;
};

template <typename Near>
class AmperRadius final : public Amper {
 public:
  AmperRadius(const SamplerSpec& spec, uint32_t leaves, AmperOptions options)
      : Amper(spec, leaves, options), near_(options.scale / options.groups) {}

 private:
  double range_end(double highest) const override { return near_.range_end(highest); }

  void search(Random& random) override {
    // From above, so that each needs to look only below what is in: of two such intervals the one
    // of the lower value begins lower or lies within the other.
    uint32_t limit = PriorityBuckets::kCount;
    for (uint32_t group = options_.groups; group-- > 0;) {
      const Interval interval = near_.around(representative(group, random));
      const uint32_t first = PriorityBuckets::first_from(interval.begin);
      add_whole_buckets(first, std::min(limit, PriorityBuckets::first_from(interval.end)));
      limit = std::min(limit, first);
    }
  }

  double inclusion(uint32_t bucket) override {
    const double per_width = range_.per_width;
    double outside = 1;  // P(not in C), of the groups below the one at hand
    double held = 0;     // the part of that one
    uint32_t group = 0;
    const auto next_group = [&](uint32_t next) {
      outside *= 1 - std::min(1.0, held * per_width);
      held = 0;
      group = next;
    };
    near_.holders(PriorityBuckets::value_of(bucket), [&](Interval values) {  // ascending
      values.end = std::min(values.end, range_.end);
      if (values.begin >= values.end) return;
      const uint32_t first = group_of(values.begin * per_width);
      const uint32_t last = group_of(values.end * per_width);
      if (first > group) next_group(first);
      while (group < last) {
        held += std::max(0.0, (group + 1) * range_.width - values.begin);
        values.begin = (group + 1) * range_.width;
        next_group(group + 1);
      }
      held += std::max(0.0, values.end - values.begin);
    });
    return 1 - outside * (1 - std::min(1.0, held * per_width));
  }

  uint32_t group_of(double widths) const {
    return std::min(options_.groups - 1, static_cast<uint32_t>(widths));
  }

  double emptiness() override {
    // Often some group has no gap: one of the middle, which have more items than those above and
    // fewer buckets to look at than those below.
    double empty = 1;
    for (uint32_t group = 0; group < options_.groups && empty > 0; ++group) {
      const uint32_t at = (group + options_.groups / 2) % options_.groups;
      const double begin = at * range_.width;
      empty *= near_.gaps(buckets_, begin, begin + range_.width) / range_.width;
    }
    return empty;
  }

  const Near near_;
};

}  // namespace

std::unique_ptr<Sampler> make_amper_fr(const SamplerSpec& spec, uint32_t leaves) {
  return std::make_unique<AmperRadius<WithinRadius>>(
      spec, leaves, amper_options(spec, {.groups = 20, .scale = 0.5}, 0.25));
}

std::unique_ptr<Sampler> make_amper_fr_prefix(const SamplerSpec& spec, uint32_t leaves) {
  return std::make_unique<AmperRadius<SamePrefix>>(
      spec, leaves, amper_options(spec, {.groups = 20, .scale = 0.5}, 0.25));
}

}  // namespace drlnet
