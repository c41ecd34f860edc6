// How a batch goes up and down the tree, whatever the instruction set. `Node` has the operations on
// one family, which all kernels add in one order.
//   scan: Sklansky's, by pairs, then pairs of pairs, and so on:
//     p[1] = a0 + a1,  p[2] = p[1] + a2,  p[3] = p[1] + (a2 + a3),  p[4] = p[3] + a4,  ...
//   Vectors of every width can do it, and it never falls: a rounded sum is monotone in what is
//   added, and adding 0 changes nothing. So a child of mass 0 has the same prefix sum as its
//   neighbour before it, and no target can fall between them.
//   sum: by halves: a[i] + a[i + 8], of those [i] + [i + 4], and so on. Both round four times at
//   most; where they differ in the last bit, a target can lie behind the last child, which is
//   what last_above_zero is for.
// And it has what was found best on CPUs that run it:
//   kSecondCacheBytes: a level of that size stays in the second cache, so it is not fetched ahead.
//   kBlock: targets that descend together, so that their misses overlap.
//   kLag: 0, or kBlock: a block's leaves are chosen behind the next block's nodes, and have that
//   much longer to come.
// Only for kernels: see kernel.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sampler/kernels/elementwise.h"
#include "sampler/kernels/kernel.h"

namespace drlnet {
namespace {

constexpr uint32_t kLeaves = TreeArrays::kLeaves;
constexpr uint32_t kFan = TreeArrays::kFan;
constexpr uint32_t kLeafBits = __builtin_ctz(kLeaves), kFanBits = __builtin_ctz(kFan);
constexpr size_t kAhead = 16;     // families that are on their way while one is summed
constexpr size_t kFarAhead = 64;  // ... and leaves while one is stored
constexpr size_t kFewRows = 64;   // found ones, that can be on their way side by side
constexpr size_t kNearBytes = size_t{32} << 10;  // a level of that size stays in the first cache
constexpr uint32_t kMostMerged = 128;            // nodes: each family rounds once more

// The last child of a family that has any: for a target that rounding left behind the sum.
template <uint32_t kCount, typename T>
[[gnu::noinline]] uint32_t last_above_zero(const T* family) {
  uint32_t child = kCount - 1;
  while (child > 0 && !(family[child] > 0)) --child;
  return child;
}

// Sums over the families of `level`, seen from the level above.
template <typename Node>
[[gnu::always_inline]] inline void sum_family(const TreeArrays& tree, uint32_t level,
                                              uint32_t family) {
  const TreeArrays::Level& below = tree.levels[level];
  const size_t first = size_t{family} * kFan;
  tree.levels[level + 1].sums[family] = level == 0
                                            ? Node::sum(below.sums + first)
                                            : Node::scan(below.sums + first, below.before + first);
}

template <typename T>
constexpr size_t kChildrenOf = sizeof(T) == sizeof(float) ? kLeaves : kFan;

// Sums over the first `count` families.
template <typename Node, typename T>
[[gnu::always_inline]] inline void sum_each(const T* children, double* sums, uint32_t count) {
  for (size_t i = 0; i < count; ++i) sums[i] = Node::sum(children + i * kChildrenOf<T>);
}

// Stores the masses and sums the leaves over which they lie.
template <typename Node>
void set_leaves(const TreeArrays& tree, const uint32_t* leaves, const float* masses, size_t count) {
  double* sums = tree.levels[0].sums;
  if (tree.levels[0].nodes <= count) {
    for (size_t i = 0; i < count; ++i) tree.leaves[leaves[i]] = masses[i];
    return Node::sum_all(tree.leaves, sums, tree.levels[0].nodes);
  }
  const bool far = size_t{tree.levels[0].nodes} * kLeaves * sizeof(float) > Node::kSecondCacheBytes;
  // A mass is fetched, stored and summed one after another, with others between: a vector that is
  // loaded right after one of its elements was stored would wait for the store.
  for (size_t i = 0; far && i < kFarAhead && i < count; ++i) {
    __builtin_prefetch(tree.leaves + leaves[i], 1);
  }
  for (size_t i = 0; i < kAhead && i < count; ++i) tree.leaves[leaves[i]] = masses[i];
  for (size_t i = 0; i < count; ++i) {
    if (far && i + kFarAhead < count) __builtin_prefetch(tree.leaves + leaves[i + kFarAhead], 1);
    if (i + kAhead < count) tree.leaves[leaves[i + kAhead]] = masses[i + kAhead];
    const uint32_t node = leaves[i] / kLeaves;
    if (i + 1 < count && leaves[i + 1] / kLeaves == node) continue;
    sums[node] = Node::sum(tree.leaves + size_t{node} * kLeaves);
  }
}

// On every level one sum for each run of changes under one node (rows that are appended lie side by
// side), or, where there are fewer nodes than changes, all of them. Above level 0 it takes half as
// long if it is one in a row.
template <typename Node>
void set(const TreeArrays& tree, const uint32_t* leaves, const float* masses, size_t count) {
  set_leaves<Node>(tree, leaves, masses, count);
  uint32_t level = 0;
  for (; level + 1 < tree.height && tree.levels[level + 1].nodes > (level == 0 ? 2 * count : count);
       ++level) {
    const TreeArrays::Level& below = tree.levels[level];
    const bool far = size_t{below.nodes} * sizeof(double) > Node::kSecondCacheBytes;
    const uint32_t shift = kLeafBits + kFanBits * (level + 1);
    for (size_t i = 0; i < count; ++i) {
      if (far && i + kAhead < count) {
        const size_t soon = size_t{leaves[i + kAhead] >> shift} * kFan;
        __builtin_prefetch(below.sums + soon);
        if (level > 0) __builtin_prefetch(below.before + soon, 1);
      }
      const uint32_t family = leaves[i] >> shift;
      if (i + 1 < count && leaves[i + 1] >> shift == family) continue;
      sum_family<Node>(tree, level, family);
    }
  }
  for (; level + 1 < tree.height; ++level) {
    const uint32_t nodes = tree.levels[level + 1].nodes;
    if (level == 0) {
      Node::sum_all(tree.levels[0].sums, tree.levels[1].sums, nodes);
      continue;
    }
    for (uint32_t node = 0; node < nodes; ++node) sum_family<Node>(tree, level, node);
  }
}

// `places` are nodes of level 1, then of level 0, whose leaves are then on their way.
template <typename Node>
[[gnu::always_inline]] inline void choose_each_node(const TreeArrays& tree, double* targets,
                                                    uint32_t* places, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const size_t first = size_t{places[i]} * kFan;
    places[i] =
        static_cast<uint32_t>(first) + Node::choose(tree.levels[0].sums + first, targets[i]);
    __builtin_prefetch(tree.leaves + size_t{places[i]} * kLeaves);
  }
}

// `places` are nodes of level 0, then leaves.
template <typename Node>
[[gnu::always_inline]] inline void choose_each_leaf(const float* leaves, const double* targets,
                                                    uint32_t* places, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const size_t first = size_t{places[i]} * kLeaves;
    places[i] = static_cast<uint32_t>(first) + Node::choose_leaf(leaves + first, targets[i]);
  }
}

// One level down for a block: `places` are nodes of level + 1, then of `level`.
template <typename Node>
void descend(const TreeArrays& tree, uint32_t level, double* targets, uint32_t* places,
             size_t count) {
  const TreeArrays::Level& here = tree.levels[level];
  if (level > 0) {
    const TreeArrays::Level& below = tree.levels[level - 1];
    const double* next = level == 1 ? below.sums : below.before;
    const bool far = below.nodes * sizeof(double) > kNearBytes;
    for (size_t i = 0; i < count; ++i) {
      const size_t first = size_t{places[i]} * kFan;
      places[i] =
          static_cast<uint32_t>(first) + Node::choose_before(here.before + first, targets[i]);
      if (far) __builtin_prefetch(next + size_t{places[i]} * kFan);
    }
  } else {
    Node::choose_nodes(tree, targets, places, count);
  }
}

// How far down the tree a merge beats a descent: a node costs it a branch foretold wrongly, which
// is what a level costs some four targets.
[[gnu::always_inline]] inline uint32_t merge_level(const TreeArrays& tree, size_t count) {
  uint32_t level = tree.height - 1;
  while (level > 0 && tree.levels[level - 1].nodes <= kMostMerged &&
         size_t{tree.levels[level - 1].nodes} * 4 <= count) {
    --level;
  }
  return level;
}

// Places ascending targets on the nodes of a level: marks at each node's first target, of which the
// sum up to a target is its node. No branch depends on the masses. Where there is a target in each
// equal part of the total, a node's first one is guessed right to within one.
[[gnu::always_inline]] inline void merge(const TreeArrays::Level& level, double* targets,
                                         uint32_t* places, size_t count) {
  double starts[kMostMerged + 1];
  double base = 0, within = 0;  // of a family: so that sums round once for each family, not node
  for (uint32_t i = 0; i < level.nodes; ++i) {
    starts[i] = base + within;
    within += level.sums[i];
    if ((i + 1) % kFan != 0) continue;
    base += within;
    within = 0;
  }
  const double total = base + within, part = static_cast<double>(count) / total;
  for (size_t i = 0; i < count; ++i) places[i] = 0;
  // Nothing falls behind the last node that adds anything, whatever rounding does.
  for (uint32_t node = 1; node < level.nodes && starts[node] < total; ++node) {
    const double start = starts[node];
    auto first = static_cast<size_t>(start * part);
    if (first >= count) first = count - 1;
    first += targets[first] < start;
    while (first < count && targets[first] < start) ++first;
    while (first > 0 && targets[first - 1] >= start) --first;
    if (first < count) ++places[first];
  }
  uint32_t node = 0;
  for (size_t i = 0; i < count; ++i) {
    places[i] = node += places[i];
    targets[i] -= starts[node];
  }
}

// A row of up to a cache line lies in two of them at most; of a longer one the rest follows by
// itself.
[[gnu::always_inline]] inline void fetch_rows(const TreeArrays& tree, const uint32_t* leaves,
                                              size_t count) {
  constexpr size_t kLine = 64;
  const size_t end = (tree.row_bytes < kLine ? tree.row_bytes : kLine) - 1;
  for (size_t i = 0; i < count; ++i) {
    const std::byte* row = tree.rows + leaves[i] * tree.row_bytes;
    __builtin_prefetch(row);
    __builtin_prefetch(row + end);
  }
}

template <typename Node>
void find(const TreeArrays& tree, double* targets, uint32_t* leaves, size_t count) {
  static_assert(Node::kLag == 0 || Node::kLag == Node::kBlock);
  const uint32_t merged = merge_level(tree, count);
  merge(tree.levels[merged], targets, leaves, count);
  for (size_t begin = 0; begin < count; begin += Node::kBlock) {
    const size_t block = count - begin < Node::kBlock ? count - begin : Node::kBlock;
    double* target = targets + begin;
    uint32_t* place = leaves + begin;
    for (uint32_t level = merged; level-- > 0;) {
      descend<Node>(tree, level, target, place, block);
    }
    const bool last = begin + block == count;
    const size_t from = begin > Node::kLag ? begin - Node::kLag : 0;
    const size_t to = begin + block - (last ? 0 : Node::kLag);
    Node::choose_leaves(tree.leaves, targets + from, leaves + from, to - from);
  }
  // They come while the draw is finished. Those of a large batch would only wait for one another
  // here rather than where they are read.
  if (tree.rows != nullptr && count <= kFewRows) fetch_rows(tree, leaves, count);
}

template <typename Node>
constexpr Kernel kernel_of(std::string_view name, bool (*runs_here)()) {
  return {name, runs_here, power, set<Node>, find<Node>, stratify};
}

}  // namespace
}  // namespace drlnet
