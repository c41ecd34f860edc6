// amper-k (see amper.h): the K_i items nearest to each V_i, K_i = k or k + 1 with
// E[K_i] = kappa_i(V_i) = scale (V_i / Vmax) (items in group i). Searched are the filled buckets up
// to the K_i-th item.
//
// P(x in C): with D(V) the number of items nearer to V than x and c the number as near (x's
// bucket), x comes in for V with probability clamp(kappa_i(V) - D(V), 0, c) / c. Away from x, D
// grows by steps where V is half way between x and another bucket; between them the integral over V
// is that of a clamped line. The groups' V_i are independent, so P(x in C) = 1 - prod_i (1 -
// p_i(x)). P(C is empty) = prod_i E[max(0, 1 - kappa_i(V_i))].
#include <algorithm>
#include <cmath>

#include "sampler/amper.h"

namespace drlnet {
namespace {

// The integral of clamp(t, 0, most) from `from` to `to`.
double clamped_area(double from, double to, double most) {
  const auto below = [most](double t) {
    if (t <= 0) return 0.0;
    return t < most ? t * t / 2 : most * t - most * most / 2;
  };
  return below(to) - below(from);
}

class AmperNearest final : public Amper {
 public:
  AmperNearest(const SamplerSpec& spec, uint32_t leaves, AmperOptions options)
      : Amper(spec, leaves, options), slopes_(options.groups), shares_(options.groups) {}

 private:
  void search(Random& random) override {
    set_slopes();
    for (uint32_t group = 0; group < options_.groups; ++group) {
      const double v = representative(group, random);
      const double wanted = std::floor(slopes_[group] * v + random.uniform());
      add_nearest(v, std::min(static_cast<double>(buckets_.size()), wanted), random);
    }
    unite();
  }

  // kappa_i(V) = slopes_[i] V.
  void set_slopes() {
    uint64_t below = 0;
    for (uint32_t group = 0; group < options_.groups; ++group) {
      const bool last = group + 1 == options_.groups;
      const uint64_t through =
          last ? buckets_.size()
               : buckets_.count_below(PriorityBuckets::first_from((group + 1) * range_.width));
      slopes_[group] = options_.scale * static_cast<double>(through - below) / range_.end;
      below = through;
    }
  }

  void add_nearest(double v, double wanted, Random& random) {
    auto left = static_cast<uint64_t>(wanted);
    const uint32_t middle = PriorityBuckets::first_from(v);
    uint32_t up = buckets_.filled_from(middle), down = buckets_.filled_below(middle);
    while (left > 0) {
      const bool upward = down == PriorityBuckets::kCount ||
                          (up != PriorityBuckets::kCount &&
                           PriorityBuckets::value_of(up) - v < v - PriorityBuckets::value_of(down));
      const uint32_t bucket = upward ? up : down;
      const uint32_t count = buckets_.count(bucket);
      if (count <= left) {
        candidates_.push_back({bucket, 0, count});
        left -= count;
      } else {
        add_part(bucket, count, static_cast<uint32_t>(left), random);
        left = 0;
      }
      (upward ? up : down) =
          upward ? buckets_.filled_from(bucket + 1) : buckets_.filled_below(bucket);
    }
  }

  // `wanted` in a row, round the end, from a random one: each is as likely to be in.
  void add_part(uint32_t bucket, uint32_t count, uint32_t wanted, Random& random) {
    const auto begin = static_cast<uint32_t>(random.below(count));
    const uint32_t before_end = std::min(wanted, count - begin);
    candidates_.push_back({bucket, begin, before_end});
    if (before_end < wanted) candidates_.push_back({bucket, 0, wanted - before_end});
  }

  // What several groups found is in once.
  void unite() {
    std::sort(candidates_.begin(), candidates_.end(), [](const Segment& a, const Segment& b) {
      return a.bucket != b.bucket ? a.bucket < b.bucket : a.begin < b.begin;
    });
    size_t kept = 0;
    for (const Segment& next : candidates_) {
      if (kept > 0 && candidates_[kept - 1].bucket == next.bucket) {
        Segment& last = candidates_[kept - 1];
        const uint32_t end = last.begin + last.count;
        if (next.begin <= end) {
          last.count = std::max(end, next.begin + next.count) - last.begin;
          continue;
        }
      }
      candidates_[kept++] = next;
    }
    candidates_.resize(kept);
  }

  double inclusion(uint32_t bucket) override {
    std::fill(shares_.begin(), shares_.end(), 0.0);
    add_shares_above(bucket);
    add_shares_below(bucket);
    double outside = 1;
    for (const double share : shares_) outside *= 1 - std::min(1.0, share / range_.width);
    return 1 - outside;
  }

  uint32_t group_of(double v) const {
    return std::min(options_.groups - 1, static_cast<uint32_t>(v / range_.width));
  }

  // The integral over V in [from, to), within one group, for a D that is constant there.
  void add_share(uint32_t group, double from, double to, double nearer, double count) {
    const double slope = slopes_[group];
    if (slope == 0 || to <= from) return;
    shares_[group] +=
        clamped_area(slope * from - nearer, slope * to - nearer, count) / (slope * count);
  }

  void add_shares_above(uint32_t bucket) {
    const double x = PriorityBuckets::value_of(bucket), count = buckets_.count(bucket);
    const double most = most_wanted();
    double nearer = 0;
    uint32_t group = group_of(x);
    uint32_t next = buckets_.filled_from(bucket + 1);
    for (double v = x; v < range_.end && nearer < most;) {
      const bool more = next != PriorityBuckets::kCount;
      const double half_way = more ? (x + PriorityBuckets::value_of(next)) / 2 : range_.end;
      const bool last_group = group + 1 == options_.groups;
      const double border = last_group ? range_.end : (group + 1) * range_.width;
      const double to = std::min(half_way, border);
      add_share(group, v, to, nearer, count);
      if (half_way <= border) {
        if (!more) break;
        nearer += buckets_.count(next);
        next = buckets_.filled_from(next + 1);
      } else {
        ++group;
      }
      v = std::max(v, to);
    }
  }

  void add_shares_below(uint32_t bucket) {
    const double x = PriorityBuckets::value_of(bucket), count = buckets_.count(bucket);
    const double most = most_wanted();
    double nearer = 0;
    uint32_t group = group_of(x);
    uint32_t next = buckets_.filled_below(bucket);
    for (double v = std::min(x, range_.end); v > 0 && nearer < most;) {
      const bool more = next != PriorityBuckets::kCount;
      const double half_way = more ? (x + PriorityBuckets::value_of(next)) / 2 : 0;
      const double border = group * range_.width;
      const double from = std::max(half_way, border);
      add_share(group, from, v, nearer, count);
      if (half_way >= border) {
        if (!more) break;
        nearer += buckets_.count(next);
        next = buckets_.filled_below(next);
      } else {
        --group;
      }
      v = std::min(v, from);
      // Downward kappa falls within a group and what is nearer only grows.
      if (group == 0 && slopes_[0] * v <= nearer) break;
    }
  }

  // No V anywhere asks for more.
  double most_wanted() const {
    double most = 0;
    for (uint32_t group = 0; group < options_.groups; ++group) {
      most = std::max(most, slopes_[group] * (group + 1) * range_.width);
    }
    return most;
  }

  double emptiness() override {
    double empty = 1;
    for (uint32_t group = 0; group < options_.groups; ++group) {
      const double from = group * range_.width, slope = slopes_[group];
      if (slope == 0) continue;
      const double none =
          clamped_area(1 - slope * (from + range_.width), 1 - slope * from, 1) / slope;
      empty *= none / range_.width;
    }
    return empty;
  }

  std::vector<double> slopes_, shares_;  // by group
};

}  // namespace

std::unique_ptr<Sampler> make_amper_k(const SamplerSpec& spec, uint32_t leaves) {
  return std::make_unique<AmperNearest>(spec, leaves,
                                        amper_options(spec, {.groups = 20, .scale = 1}, 1));
}

}  // namespace drlnet
