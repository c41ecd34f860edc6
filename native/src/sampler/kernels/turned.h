// How a batch is searched many families at a time, for instruction sets with wide vectors. The
// families are turned: a vector of the first child of each, one of the second, and so on. Sums and
// comparisons then serve as many families as a vector has places, and only turning them moves
// anything across one. `Node` has the operations on a vector. Only for kernels: see kernel.h.
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>

#include "sampler/kernels/kernel.h"
#include "sampler/kernels/walk.h"

namespace drlnet {
namespace {

// Adds to child how many of the prefix sums, the last one aside, are not above the target, and
// makes the last of those below. By halving; the sums are used up.
template <typename Node, uint32_t kCount, typename Vector, typename Index>
[[gnu::always_inline]] inline void choose_each(Vector (&through)[kCount], Vector target,
                                               Index& child, Vector& below) {
#pragma GCC unroll 4
  for (uint32_t half = kCount / 2; half > 0; half /= 2) {
    const auto passed = Node::at_most(through[half - 1], target);
    Node::add(child, passed, half);
    below = Node::choice(below, passed, through[half - 1]);
#pragma GCC unroll 8
    for (uint32_t i = 0; i + 1 < half; ++i) {
      through[i] = Node::choice(through[i], passed, through[i + half]);
    }
  }
}

template <typename Node>
[[gnu::always_inline]] inline void choose_turned_nodes(const TreeArrays& tree, double* targets,
                                                       uint32_t* places) {
  const auto target = Node::load(targets);
  typename Node::Doubles x[kFan];
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kFan; i += 2) Node::turn(tree.levels[0].sums + i, places, x + i);
  // Prefix sums, as a scan adds them.
#pragma GCC unroll 3
  for (uint32_t half = 1; half < kFan; half *= 2) {
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kFan; ++i) {
      if (i & half) x[i] = x[i] + x[(i & ~(half - 1)) - 1];
    }
  }
  if (Node::flags(Node::at_most(x[kFan - 1], target)) != 0) [[unlikely]]
    return choose_each_node<Node>(tree, targets, places, Node::kDoubles);
  typename Node::DoublesIndex child{};
  typename Node::Doubles below{};
  choose_each<Node>(x, target, child, below);
  Node::descend(places, kFanBits, child);
  Node::store(targets, target - below);
  for (uint32_t i = 0; i < Node::kDoubles; ++i) {
    __builtin_prefetch(tree.leaves + size_t{places[i]} * kLeaves);
  }
}

// In float32, whose prefix sums are off by fifteen roundings at most, which is less than 2^-20 of
// each. A target that lies further than that from all of them (and than what its own rounding
// takes) falls where it does in float64, for a third of the work; of the others float64 decides.
template <typename Node>
[[gnu::always_inline]] inline void choose_turned_leaves(const float* leaves, const double* targets,
                                                        uint32_t* places) {
  using Floats = typename Node::Floats;
  const Floats target = Node::narrow(targets);
  const Floats margin = target * 0x1p-19f + FLT_MIN;
  const Floats most = target + margin, least = target - margin;
  Floats x[kLeaves];
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kLeaves; i += 4) Node::turn(leaves + i, places, x + i);
#pragma GCC unroll 16
  for (uint32_t i = 1; i < kLeaves; ++i) x[i] = x[i] + x[i - 1];
  const auto behind = Node::at_most(x[kLeaves - 1], most);
  typename Node::FloatsIndex child{};
  Floats below{};
  choose_each<Node>(x, most, child, below);
  const uint32_t unsure = Node::flags(behind) | Node::flags(Node::above(below, least));
  uint32_t families[Node::kFloats];
  __builtin_memcpy(families, places, sizeof families);
  Node::descend(places, kLeafBits, child);
  if (unsure == 0) [[likely]]
    return;
  for (uint32_t i = 0; i < Node::kFloats; ++i) {
    if ((unsure >> i & 1) == 0) continue;
    places[i] = families[i];
    choose_each_leaf<Node>(leaves, targets + i, places + i, 1);
  }
}

// What walk.h asks of a Node for batches.
template <typename Node>
struct Turned {
  static void choose_nodes(const TreeArrays& tree, double* targets, uint32_t* places,
                           size_t count) {
    constexpr size_t kLanes = Node::kDoubles;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      choose_turned_nodes<Node>(tree, targets + i, places + i);
    }
    choose_each_node<Node>(tree, targets + i, places + i, count - i);
  }
  static void choose_leaves(const float* leaves, const double* targets, uint32_t* places,
                            size_t count) {
    constexpr size_t kLanes = Node::kFloats;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      choose_turned_leaves<Node>(leaves, targets + i, places + i);
    }
    choose_each_leaf<Node>(leaves, targets + i, places + i, count - i);
  }
  template <typename T>
  static void sum_all(const T* children, double* sums, uint32_t count) {
    constexpr uint32_t kLanes = Node::kDoubles;
    constexpr size_t kChildren = kChildrenOf<T>;
    uint32_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      typename Node::Doubles x[kLanes];
#pragma GCC unroll 8
      for (uint32_t j = 0; j < kLanes; ++j) x[j] = Node::folded(children + (i + j) * kChildren);
      Node::store(sums + i, Node::sums_of(x));
    }
    sum_each<Node>(children + i * kChildren, sums + i, count - i);
  }
};

}  // namespace
}  // namespace drlnet
