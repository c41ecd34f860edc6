#include "sampler/sum_tree.h"

#include "base/assert.h"

namespace drlnet {
namespace {

constexpr uint32_t kLeaves = TreeArrays::kLeaves;
constexpr uint32_t kFan = TreeArrays::kFan;
constexpr size_t kLineBytes = 64;
static_assert(kLeaves * sizeof(float) == kLineBytes && kFan * sizeof(double) == kLineBytes);

uint32_t families(uint32_t count, uint32_t size) { return count / size + (count % size != 0); }

// Whole families: absent children are 0.
size_t leaf_bytes(uint32_t leaves) { return size_t{families(leaves, kLeaves)} * kLineBytes; }
size_t node_bytes(uint32_t nodes) { return size_t{families(nodes, kFan)} * kLineBytes; }

}  // namespace

SumTree::SumTree(uint32_t leaves, const Kernel& kernel) : kernel_(&kernel) {
  DRLNET_ASSERT(leaves > 0);
  size_t bytes = leaf_bytes(leaves);
  for (uint32_t nodes = families(leaves, kLeaves);; nodes = families(nodes, kFan)) {
    arrays_.levels[arrays_.height++].nodes = nodes;
    bytes += 2 * node_bytes(nodes);
    if (nodes == 1) break;
  }
  memory_ = Mapping(bytes);
  std::byte* at = memory_.data();
  const auto take = [&at](size_t size) { return std::exchange(at, at + size); };
  arrays_.leaves = reinterpret_cast<float*>(take(leaf_bytes(leaves)));
  for (uint32_t i = 0; i < arrays_.height; ++i) {
    TreeArrays::Level& level = arrays_.levels[i];
    level.sums = reinterpret_cast<double*>(take(node_bytes(level.nodes)));
    if (i > 0) level.before = reinterpret_cast<double*>(take(node_bytes(level.nodes)));
  }
}

double SumTree::before(uint32_t leaf) const {
  uint32_t node = leaf / kLeaves;
  double sum = 0;
  for (uint32_t i = node * kLeaves; i < leaf; ++i) sum += double{arrays_.leaves[i]};
  for (uint32_t level = 0; level < arrays_.height; ++level, node /= kFan) {
    for (uint32_t i = node / kFan * kFan; i < node; ++i) sum += arrays_.levels[level].sums[i];
  }
  return sum;
}

}  // namespace drlnet
