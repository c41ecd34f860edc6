// Sums over an array of non-negative float32 leaves, 16 to a node, and 8 nodes to one above: a
// cache line either way. Threading: one thread.
//
// The sums are float64. float32 would halve them, but its 24 bits cannot even name a leaf of 2^20
// with a few bits to spare, and beside a mass of 1 all that is below 6e-8 would vanish from its
// node and never be drawn. In float64 a leaf is found by targets over an interval whose width is
// its mass to within 2^-46 of the total (each level rounds a few times, the one at which a batch
// begins once for each of up to 16 families, and a batch's targets lie 2^-52 apart): what is
// reported as its probability is what it has, to a relative 2e-2 for a trillionth of the mass, and
// better than float32 can tell for all above 2e-7.
//
// A node is recomputed from its children whenever one of them changes, never adjusted by a
// difference: the sums are a function of the leaves as they are, so nothing drifts, however many
// updates there were.
#pragma once

#include <cstdint>
#include <span>

#include "base/mapping.h"
#include "sampler/kernels/kernel.h"

namespace drlnet {

class SumTree {
 public:
  explicit SumTree(uint32_t leaves, const Kernel& kernel = chosen_kernel());

  // masses are finite and >= 0. A leaf that is named twice keeps the later mass.
  // O(leaves.size() * log(leaf_count)).
  void set(std::span<const uint32_t> leaves, std::span<const float> masses) {
    kernel_->set(arrays_, leaves.data(), masses.data(), leaves.size());
  }
  // Each leaf has a row of `stride` bytes there, which is read next once the leaf is found.
  void fetch_along(const std::byte* rows, size_t stride) {
    arrays_.rows = rows;
    arrays_.row_bytes = stride;
  }

  float get(uint32_t leaf) const { return arrays_.leaves[leaf]; }
  // The masses of all leaves under that one, which may be the one behind the last.
  double before(uint32_t leaf) const;
  double total() const { return *arrays_.levels[arrays_.height - 1].sums; }

  // For each target in [0, total()] the leaf under which it falls, counting masses from leaf 0.
  // Never a leaf of mass 0, whatever rounding does. total() > 0. Targets ascend, and are scratch:
  // overwritten. One in each equal part of the total is the fastest.
  // O(targets.size() * log(leaf_count)).
  void find(std::span<double> targets, std::span<uint32_t> leaves) const {
    kernel_->find(arrays_, targets.data(), leaves.data(), targets.size());
  }

 private:
  const Kernel* kernel_;
  Mapping memory_;
  TreeArrays arrays_{};
};

}  // namespace drlnet
