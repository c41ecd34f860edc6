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
      : Amper(spec, leaves, options),
        slopes_(options.groups),
        shares_(options.groups),
        index_of_(PriorityBuckets::kCount) {}

 private:
  void search(Random& random) override {
    list_buckets();
    set_slopes();
    for (uint32_t group = 0; group < options_.groups; ++group) {
      const double v = representative(group, random);
      const double wanted = std::floor(slopes_[group] * v + random.uniform());
      add_nearest(v, std::min(static_cast<double>(buckets_.size()), wanted), random);
    }
    unite();
  }

  void list_buckets() {
    filled_.clear();
    values_.clear();
    before_.assign(1, 0);
    buckets_.each_filled(0, PriorityBuckets::kCount, [this](uint32_t bucket) {
      const uint32_t first = filled_.empty() ? bucket : filled_.back() + 1;
      std::fill_n(&index_of_[first], bucket + 1 - first, static_cast<uint16_t>(filled_.size()));
      filled_.push_back(bucket);
      values_.push_back(PriorityBuckets::value_of(bucket));
      before_.push_back(before_.back() + buckets_.count(bucket));
    });
  }

  // kappa_i(V) = slopes_[i] V.
  void set_slopes() {
    uint64_t below = 0;
    most_ = 0;
    for (uint32_t group = 0; group < options_.groups; ++group) {
      const bool last = group + 1 == options_.groups;
      const uint64_t through = last ? buckets_.size() : before_[first_from(end_of(group), 0)];
      slopes_[group] = options_.scale * static_cast<double>(through - below) / range_.end;
      most_ = std::max(most_, slopes_[group] * end_of(group));
      below = through;
    }
  }

  double end_of(uint32_t group) const {
    return group + 1 == options_.groups ? range_.end : (group + 1) * range_.width;
  }
  // The first listed bucket of at least this value, `from` or later.
  size_t first_from(double value, size_t from) const {
    const uint32_t bucket = PriorityBuckets::first_from(value);
    if (bucket > filled_.back()) return filled_.size();
    return std::max<size_t>(from, index_of_[std::max(bucket, filled_.front())]);
  }

  void add_nearest(double v, double wanted, Random& random) {
    auto left = static_cast<uint64_t>(wanted);
    size_t up = first_from(v, 0), down = up;  // next: up, or down - 1
    while (left > 0) {
      const bool upward =
          down == 0 || (up < values_.size() && values_[up] - v < v - values_[down - 1]);
      const uint32_t bucket = filled_[upward ? up++ : --down];
      const uint32_t count = buckets_.count(bucket);
      if (count <= left) {
        candidates_.push_back({bucket, 0, count});
        left -= count;
      } else {
        add_part(bucket, count, static_cast<uint32_t>(left), random);
        left = 0;
      }
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
    const size_t at = first_from(PriorityBuckets::value_of(bucket), 0);
    add_shares_above(at);
    add_shares_below(at);
    double outside = 1;
    for (const double share : shares_) outside *= 1 - std::min(1.0, share * range_.per_width);
    return 1 - outside;
  }

  uint32_t group_of(double v) const {
    return std::min(options_.groups - 1, static_cast<uint32_t>(v / range_.width));
  }

  // The integral over V in [from, to), within one group, for a D that is constant there.
  void add_share(uint32_t group, double from, double to, double nearer, double count) {
    const double slope = slopes_[group];
    if (slope == 0 || to <= from) return;
    if (slope * from - nearer >= count) {  // the whole bucket comes in: nearly every step
      shares_[group] += to - from;
      return;
    }
    shares_[group] +=
        clamped_area(slope * from - nearer, slope * to - nearer, count) / (slope * count);
  }

  double items(size_t first, size_t end) const {
    return static_cast<double>(before_[end] - before_[first]);
  }

  // What lies between x and its mirror image across V is nearer to V than x is.
  void add_shares_above(size_t at) {
    const double x = values_[at], count = items(at, at + 1);
    uint32_t group = group_of(x);
    size_t next = at + 1;
    for (double v = x; v < range_.end && items(at + 1, next) < most_;) {
      const bool more = next < values_.size();
      const double half_way = more ? (x + values_[next]) / 2 : range_.end;
      const double border = end_of(group);
      const double to = std::min(half_way, border);
      add_share(group, v, to, items(at + 1, next), count);
      v = std::max(v, to);
      if (half_way <= border && !more) break;
      if (half_way <= border) {
        ++next;
      } else {
        ++group;
      }
      // Nothing comes in before kappa exceeds what is nearer here, and that only grows with V.
      const double slope = slopes_[group], nearer = items(at + 1, next);
      if (slope * v <= nearer) {
        v = std::max(v, slope > 0 ? std::min(end_of(group), nearer / slope) : end_of(group));
        next = first_from(2 * v - x, next);
      }
    }
  }

  void add_shares_below(size_t at) {
    const double x = values_[at], count = items(at, at + 1);
    uint32_t group = group_of(x);
    size_t first = at;  // of those that are nearer
    for (double v = std::min(x, range_.end); v > 0 && items(first, at) < most_;) {
      const double half_way = first > 0 ? (x + values_[first - 1]) / 2 : 0;
      const double border = group * range_.width;
      const double from = std::max(half_way, border);
      add_share(group, from, v, items(first, at), count);
      v = std::min(v, from);
      if (half_way >= border && first == 0) break;
      if (half_way >= border) {
        --first;
      } else {
        --group;
      }
      // Downward kappa falls within a group, and what is nearer only grows.
      if (slopes_[group] * v <= items(first, at)) {
        if (group == 0) break;
        v = std::min(v, group * range_.width);
        --group;
        first = std::min(first, first_from(2 * v - x, 0));
      }
    }
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
  double most_ = 0;                      // of kappa over all V
  // The filled buckets of this draw, ascending, and the items below each of them.
  std::vector<uint32_t> filled_;
  // By bucket, from the first filled one to the last: which in filled_ is the next, itself if it is
  // filled. Searches of filled_ for values take longer than all the rest.
  std::vector<uint16_t> index_of_;
  std::vector<double> values_;
  std::vector<uint64_t> before_;
};

}  // namespace

std::unique_ptr<Sampler> make_amper_k(const SamplerSpec& spec, uint32_t leaves) {
  return std::make_unique<AmperNearest>(spec, leaves,
                                        amper_options(spec, {.groups = 20, .scale = 1}, 1));
}

}  // namespace drlnet
