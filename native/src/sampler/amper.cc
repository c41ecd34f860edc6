#include "sampler/amper.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/assert.h"
#include "base/error.h"

namespace drlnet {
namespace {

// Less finds hardly ever anything, and at last a radius would not be a normal number any more.
constexpr double kLeastScale = 1e-6;

}  // namespace

AmperOptions amper_options(const SamplerSpec& spec, AmperOptions defaults,
                           double most_scale_per_group) {
  AmperOptions options = defaults;
  const std::string sampler = "sampler '" + spec.name + "'";
  for (const auto& [name, value] : spec.options) {
    if (name == "groups") {
      if (!(value >= 1 && value <= 1024) || value != std::floor(value)) {
        throw Error(Status::config, sampler + ": groups = " + shown(value) + " cannot be",
                    "give groups a whole number from 1 to 1024");
      }
      options.groups = static_cast<uint32_t>(value);
    } else if (name == "scale") {
      options.scale = value;
    } else {
      throw Error(Status::config, sampler + " has no option '" + name + "'",
                  "its options are groups and scale");
    }
  }
  const double most = most_scale_per_group * options.groups;
  if (!(options.scale >= kLeastScale && options.scale <= most)) {
    throw Error(Status::config, sampler + ": scale = " + shown(options.scale) + " cannot be",
                "give scale a number from " + shown(kLeastScale) + " to " + shown(most) + " with " +
                    std::to_string(options.groups) + " groups");
  }
  return options;
}

Amper::Amper(const SamplerSpec& spec, uint32_t leaves, AmperOptions options)
    : options_(options),
      buckets_(leaves),
      kernel_(chosen_kernel()),
      exponent_(static_cast<float>(spec.priority_exponent)),
      floor_(std::max(static_cast<float>(spec.priority_floor), std::numeric_limits<float>::min())) {
}

std::span<const uint32_t> Amper::buckets_for(std::span<const float> priorities) {
  const size_t n = priorities.size();
  masses_.resize(n);
  kernel_.power(priorities.data(), masses_.data(), n, floor_, exponent_);
  targets_.resize(n);
  for (size_t i = 0; i < n; ++i) targets_[i] = PriorityBuckets::bucket_of(masses_[i]);
  return targets_;
}

void Amper::insert(uint32_t slot, float priority) {
  buckets_.insert(slot, buckets_for({&priority, 1}).front());
}

void Amper::update(std::span<const uint32_t> slots, std::span<const float> priorities) {
  buckets_.move(slots, buckets_for(priorities));
}

void Amper::draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) {
  DRLNET_ASSERT(size() > 0);
  range_.end = range_end(PriorityBuckets::value_of(buckets_.filled_below(PriorityBuckets::kCount)));
  range_.width = range_.end / options_.groups;
  range_.per_width = 1 / range_.width;
  candidates_.clear();
  search(random);
  if (candidates_.empty()) add_whole_buckets(0, PriorityBuckets::kCount);
  index_candidates();

  // In passes, so that the caches' misses of a batch overlap.
  choose_candidates(slots.size(), random);
  set_probabilities();
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i] = *drawn_[i].place;
    probabilities[i] = probabilities_[drawn_[i].segment];
  }
}

void Amper::choose_candidates(size_t n, Random& random) {
  drawn_.resize(n);
  probabilities_.assign(candidates_.size(), kNotDrawn);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t target = random.below(candidate_count_);
    uint32_t at = guide_[target >> shift_];
    // A step or none, mostly, at random: nothing to branch on.
    at += ends_[at] <= target;
    at += ends_[at] <= target;
    while (ends_[at] <= target) [[unlikely]]
      ++at;
    const Segment& segment = candidates_[at];
    const uint64_t begin = ends_[at] - segment.count;
    const auto index = segment.begin + static_cast<uint32_t>(target - begin);
    drawn_[i] = {buckets_.slot_at(segment.bucket, index), at};
    __builtin_prefetch(drawn_[i].place);
    probabilities_[at] = kDrawn;
  }
}

void Amper::set_probabilities() {
  const double empty = emptiness(), share = 1 / static_cast<double>(candidate_count_);
  // Those that were drawn, listed without a branch on chance. In the order of the search:
  // neighbours take the same turns.
  segments_.resize(candidates_.size());
  size_t count = 0;
  for (uint32_t i = 0; i < candidates_.size(); ++i) {
    segments_[count] = i;
    count += probabilities_[i] == kDrawn;
  }
  for (const uint32_t segment : std::span(segments_).first(count)) {
    const double in_set = std::min(1.0, inclusion(candidates_[segment].bucket) + empty);
    probabilities_[segment] = static_cast<float>(in_set * share);
  }
}

void Amper::index_candidates() {
  const size_t n = candidates_.size();
  ends_.resize(n);
  candidate_count_ = 0;
  for (size_t i = 0; i < n; ++i) ends_[i] = candidate_count_ += candidates_[i].count;
  // A cell or more to a segment.
  const auto cells = static_cast<uint32_t>(std::bit_width(std::bit_ceil(n)));
  const auto bits = static_cast<uint32_t>(std::bit_width(candidate_count_ - 1));
  shift_ = bits > cells ? bits - cells : 0;
  // Each segment is noted in the first cell that begins within or behind it, then carried on.
  guide_.assign(((candidate_count_ - 1) >> shift_) + 2, 0);
  const uint64_t rest = (uint64_t{1} << shift_) - 1;
  for (uint32_t i = 1; i < n; ++i) guide_[(ends_[i - 1] + rest) >> shift_] = i;
  uint32_t at = 0;
  for (uint32_t& cell : guide_) cell = at = std::max(at, cell);
}

void Amper::add_whole_buckets(uint32_t first, uint32_t end) {
  buckets_.each_filled(first, end, [this](uint32_t bucket) {
    candidates_.push_back({bucket, 0, buckets_.count(bucket)});
  });
}

}  // namespace drlnet
