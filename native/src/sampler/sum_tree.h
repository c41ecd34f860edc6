// Sums over an array of non-negative leaves, 16 children to a node, float64 above float32 leaves.
// A node is recomputed from its children whenever one of them changes, never adjusted by a
// difference: the sums are a function of the leaves as they are, so nothing drifts, however many
// updates there were. Threading: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/mapping.h"

namespace drlnet {

class SumTree {
 public:
  explicit SumTree(uint32_t leaves);

  // masses are finite and >= 0. A leaf that is named twice keeps the later mass.
  // O(leaves.size() * log(leaf_count)).
  void set(std::span<const uint32_t> leaves, std::span<const float> masses);
  float get(uint32_t leaf) const { return leaves_[leaf]; }
  double total() const { return *levels_.back().sums; }

  // For each target in [0, total()] the leaf under which it falls, counting masses from leaf 0.
  // Never a leaf of mass 0, whatever rounding does. total() > 0. Targets are scratch: overwritten.
  // Ascending targets are the fastest. O(targets.size() * log(leaf_count)).
  void find(std::span<double> targets, std::span<uint32_t> leaves) const;

 private:
  static constexpr uint32_t kFan = 16;
  struct Level {  // levels_[0] sums 16 leaves each, the last has one node
    double* sums;
    uint32_t nodes;
  };
  void recompute(size_t level, uint32_t node);

  Mapping memory_;
  float* leaves_;
  std::vector<Level> levels_;
  std::vector<uint32_t> touched_;  // scratch of set()
};

}  // namespace drlnet
