#include "sampler/sum_tree.h"

#include "base/assert.h"

namespace drlnet {
namespace {

constexpr uint32_t kFan = TreeArrays::kFan;

uint32_t up(uint32_t count) { return count / kFan + (count % kFan != 0); }

// Whole families, which are whole cache lines: absent children are 0.
template <typename T>
size_t bytes_of(uint32_t count) {
  return size_t{up(count)} * kFan * sizeof(T);
}

}  // namespace

SumTree::SumTree(uint32_t leaves, const Kernel& kernel) : kernel_(&kernel) {
  DRLNET_ASSERT(leaves > 0);
  size_t bytes = bytes_of<float>(leaves);
  for (uint32_t nodes = leaves; nodes > 1 || arrays_.height == 0;) {
    nodes = up(nodes);
    arrays_.levels[arrays_.height++].nodes = nodes;
    bytes += 2 * bytes_of<double>(nodes);
  }
  memory_ = Mapping(bytes);
  std::byte* at = memory_.data();
  const auto take = [&at](size_t size) { return std::exchange(at, at + size); };
  arrays_.leaves = reinterpret_cast<float*>(take(bytes_of<float>(leaves)));
  for (uint32_t i = 0; i < arrays_.height; ++i) {
    TreeArrays::Level& level = arrays_.levels[i];
    level.sums = reinterpret_cast<double*>(take(bytes_of<double>(level.nodes)));
    if (i > 0) level.before = reinterpret_cast<double*>(take(bytes_of<double>(level.nodes)));
  }
}

}  // namespace drlnet
