#include "sampler/sum_tree.h"

#include <algorithm>

namespace drlnet {
namespace {

constexpr uint32_t kBlock = 64;  // targets that descend together, so that their misses overlap

// The same order whatever the types, in four lanes that compilers turn into vectors.
template <typename T>
double sum16(const T* values) {
  double lanes[4];
  for (int i = 0; i < 4; ++i) {
    lanes[i] = (static_cast<double>(values[i]) + static_cast<double>(values[i + 4])) +
               (static_cast<double>(values[i + 8]) + static_cast<double>(values[i + 12]));
  }
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

// The child under which target falls; target becomes relative to it. A child is only chosen where
// the prefix sum really grows, so its value is above 0. Sums that were rounded otherwise one level
// up can leave a target behind the last child: then it is the last one above 0.
template <typename T>
uint32_t choose16(const T* values, double& target) {
  double prefix[17];
  prefix[0] = 0;
  for (int i = 0; i < 16; ++i) prefix[i + 1] = prefix[i] + static_cast<double>(values[i]);
  uint32_t child = 0;
  for (int i = 1; i <= 16; ++i) child += prefix[i] <= target;
  if (child == 16) [[unlikely]] {
    do --child;
    while (child > 0 && values[child] == 0);
  }
  target -= prefix[child];
  return child;
}

uint32_t up(uint32_t count) { return (count + 15) / 16; }

}  // namespace

SumTree::SumTree(uint32_t leaves) {
  size_t bytes = size_t{up(leaves)} * 16 * sizeof(float);
  std::vector<size_t> offsets;
  uint32_t nodes = leaves;
  do {
    nodes = up(nodes);
    offsets.push_back(bytes);
    levels_.push_back({nullptr, nodes});
    bytes += size_t{up(nodes)} * 16 * sizeof(double);  // whole families: absent children are 0
  } while (nodes > 1);
  memory_ = Mapping(bytes);
  leaves_ = reinterpret_cast<float*>(memory_.data());
  for (size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].sums = reinterpret_cast<double*>(memory_.data() + offsets[i]);
  }
}

void SumTree::recompute(size_t level, uint32_t node) {
  levels_[level].sums[node] = level == 0 ? sum16(leaves_ + size_t{node} * kFan)
                                         : sum16(levels_[level - 1].sums + size_t{node} * kFan);
}

void SumTree::set(std::span<const uint32_t> leaves, std::span<const float> masses) {
  touched_.resize(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    leaves_[leaves[i]] = masses[i];
    touched_[i] = leaves[i];
  }
  size_t level = 0;
  for (; level < levels_.size() && levels_[level].nodes > leaves.size(); ++level) {
    for (uint32_t& node : touched_) recompute(level, node /= kFan);
  }
  // From where there are fewer nodes than changes, all of them.
  for (; level < levels_.size(); ++level) {
    for (uint32_t node = 0; node < levels_[level].nodes; ++node) recompute(level, node);
  }
}

void SumTree::find(std::span<double> targets, std::span<uint32_t> leaves) const {
  for (size_t begin = 0; begin < targets.size(); begin += kBlock) {
    const size_t end = std::min(targets.size(), begin + kBlock);
    std::fill(leaves.begin() + static_cast<ptrdiff_t>(begin),
              leaves.begin() + static_cast<ptrdiff_t>(end), 0);
    for (size_t level = levels_.size() - 1; level-- > 0;) {
      const double* sums = levels_[level].sums;
      for (size_t i = begin; i < end; ++i) {
        const uint32_t first = leaves[i] * kFan;
        leaves[i] = first + choose16(sums + first, targets[i]);
        const std::byte* family =
            level > 0 ? reinterpret_cast<const std::byte*>(levels_[level - 1].sums +
                                                           size_t{leaves[i]} * kFan)
                      : reinterpret_cast<const std::byte*>(leaves_ + size_t{leaves[i]} * kFan);
        __builtin_prefetch(family);
        if (level > 0) __builtin_prefetch(family + 64);
      }
    }
    for (size_t i = begin; i < end; ++i) {
      const uint32_t first = leaves[i] * kFan;
      leaves[i] = first + choose16(leaves_ + first, targets[i]);
    }
  }
}

}  // namespace drlnet
