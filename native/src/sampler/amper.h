// Associative-memory experience replay in software: what its variants share. After M. Li, A.
// Kazemi, A. F. Laguna and X. S. Hu, "Associative Memory Based Experience Replay for Deep
// Reinforcement Learning" (2022, arXiv 2207.07791).
//
// The range [0, Vmax) below the highest priority falls into m groups of equal width. In each a
// representative value V_i is drawn uniformly; each brings the items near it into a candidate set
// C; the draws are uniform in C, independent, with replacement. What "near" is makes the variant:
//   amper-k          the K_i nearest items, E[K_i] = scale (V_i / Vmax) (items in the group)
//   amper-fr         all within scale V_i / m of V_i
//   amper-fr-prefix  all that agree with V_i in the leading bits of a binary fraction: the 2^b wide
//                    aligned block around V_i, the widest that does not exceed that diameter
// Either way an item comes in about in proportion to its priority p: by the defaults (groups, m:
// 20; scale: 1 for amper-k, else 0.5) with a chance of about p / Vmax.
//
// Where the paper is silent, and what is done here:
// - Which priority: max(p, floor)^alpha, the mass that PER draws by, since a chance in proportion
//   to what is grouped approximates PER only then. alpha = 1 groups the priorities themselves.
// - Precision: the leading 8 bits of mantissa, see PriorityBuckets. Every figure below holds
//   exactly for the rounded priorities; mass() is their sum.
// - The range's end: Vmax; amper-fr-prefix takes the end of Vmax's block. A Vmax that begins a
//   block would else never come in.
// - Units: the paper's factor for K_i multiplies V itself; here V / Vmax, so that the set's size
//   does not change when all rewards are scaled.
// - Fractions of K_i round up with their own probability. Rounding to nearest would never let in
//   the few items at the top, whose groups' products stay below 1/2.
// - Of equally near items that do not all fit, random ones come in.
// - C is a set: what several groups bring in counts once.
// - An empty C (all V_i fell into gaps) is replaced by all items: one search, never a loop.
// - One draw() has one C.
// - The probability that is reported for x is that of its coming into C, over all that the V_i and
//   the fallback might have been, times its share of this C:
//       q(x) = P(x in C) / |C|.
//   It makes 1 / (n q) an exactly unbiased importance weight: over repeated draws, the mean of
//   [x was drawn] / q(x) is 1 for each x. (P(x in C) is exact, see the variants. The frequency with
//   which x is drawn is E[[x in C] / |C|], which has no closed form; q is equal to it where |C|
//   does not vary. Within a batch |C| cancels out of weights that are normalised by their maximum.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampler/kernels/kernel.h"
#include "sampler/priority_buckets.h"
#include "sampler/sampler.h"

namespace drlnet {

struct AmperOptions {
  uint32_t groups;
  double scale;
};

// Threading: one thread. insert, remove, update: O(1) per item. draw: O(groups + buckets searched +
// draws), independent of the number of items; see the variants for what they search.
class Amper : public Sampler {
 public:
  // Rounded priorities near one another: slots [begin, begin + count) of a bucket's list.
  struct Segment {
    uint32_t bucket, begin, count;
  };

  void insert(uint32_t slot, float priority) final;
  void remove(uint32_t slot) final { buckets_.remove(slot); }
  void move(uint32_t from, uint32_t to) final {
    const uint32_t bucket = buckets_.bucket_at(from);
    buckets_.remove(from);
    buckets_.insert(to, bucket);
  }
  void update(std::span<const uint32_t> slots, std::span<const float> priorities) final;
  void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) final;
  float stored(uint32_t slot) const final {
    return static_cast<float>(PriorityBuckets::value_of(buckets_.bucket_at(slot)));
  }
  uint64_t size() const final { return buckets_.size(); }
  double mass() const final { return buckets_.mass(); }

 protected:
  Amper(const SamplerSpec& spec, uint32_t leaves, AmperOptions options);

  // What the groups divide in this draw.
  struct Range {
    double end = 0;
    double width = 0;      // of a group
    double per_width = 0;  // 1 / width
  };

  // Where the range ends, of which this is the highest rounded priority.
  virtual double range_end(double highest) const { return highest; }

  // Fills candidates_, disjoint, for representative values that are drawn here.
  virtual void search(Random& random) = 0;
  // P(x in C) by search(), of items in this bucket.
  virtual double inclusion(uint32_t bucket) = 0;
  // P(search() finds nothing).
  virtual double emptiness() = 0;

  double representative(uint32_t group, Random& random) const {
    return (group + random.uniform()) * range_.width;
  }
  void add_whole_buckets(uint32_t first, uint32_t end);  // the filled ones of [first, end)

  const AmperOptions options_;
  PriorityBuckets buckets_;
  Range range_;
  std::vector<Segment> candidates_;

 private:
  // Valid until the next call.
  std::span<const uint32_t> buckets_for(std::span<const float> priorities);
  void index_candidates();
  void choose_candidates(size_t n, Random& random);
  void set_probabilities();

  const Kernel& kernel_;
  const float exponent_, floor_;
  std::vector<float> masses_;      // scratch
  std::vector<uint32_t> targets_;  // scratch: buckets
  uint64_t candidate_count_ = 0;
  // Finds the segment of the n-th candidate: ends_ are cumulated counts; guide_[n >> shift_] is
  // where to start to look (the guide table of Chen and Asau, 1974).
  std::vector<uint64_t> ends_;
  std::vector<uint32_t> guide_;
  uint32_t shift_ = 0;
  static constexpr float kNotDrawn = -1, kDrawn = 0;  // in place of what is not computed yet
  std::vector<float> probabilities_;                  // by segment
  std::vector<uint32_t> segments_;                    // scratch: those that were drawn
  struct Drawn {
    const uint32_t* place;  // of the slot
    uint32_t segment;
  };
  std::vector<Drawn> drawn_;  // scratch
};

// groups and scale, or their defaults. Throws Error(config) for other names and values out of
// range: groups in 1 .. 1024, scale in (0, most_scale_per_group x groups].
AmperOptions amper_options(const SamplerSpec& spec, AmperOptions defaults,
                           double most_scale_per_group);

}  // namespace drlnet
