// What the priority index computes in bulk, once per instruction set: one file each (portable.cc,
// avx2.cc, avx512.cc), chosen at run time in kernel.cc.
//
// All kernels give the same bits. They add in the same order (walk.h) and never contract a product
// and a sum into one rounding, so a seed draws the same items whatever the CPU; the tests hold them
// to it.
//
// A kernel's file is compiled for its instruction set. An inline function of a header that ends up
// in its object file could be the copy that the linker keeps for everyone, and would then crash an
// older CPU. So these files call only what lies in their own unnamed namespace, intrinsics, and
// always-inlined functions: pointers and counts instead of containers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace drlnet {

// The arrays of a sum tree: see sum_tree.h, which owns them.
struct TreeArrays {
  // A family is a cache line: of float32 leaves, of float64 nodes.
  static constexpr uint32_t kLeaves = 16;
  static constexpr uint32_t kFan = 8;
  static constexpr size_t kMaxHeight = 11;  // 2^32 leaves

  // Level 0 sums 16 leaves to a node, level i 8 nodes of level i - 1; the last has one node.
  struct Level {
    double* sums;
    // Sum of the earlier siblings: what a descent compares with. Infinite behind the last sibling
    // that adds anything. Not kept for level 0 (it would cost updates more than it saves draws),
    // nor for the last.
    double* before;
    uint32_t nodes;
  };
  float* leaves;
  Level levels[kMaxHeight];
  uint32_t height;
  // What is read next of each leaf that was found: find() fetches it ahead, for small batches.
  // Null: nothing.
  const std::byte* rows;
  size_t row_bytes;
};

struct Kernel {
  std::string_view name;
  bool (*runs_here)();  // whether this CPU and its system have the instructions

  // masses[i] = max(priorities[i], floor)^exponent, kept within float32's normal range. Priorities
  // are finite and >= 0, floor is normal, exponent in [0, 4]. To a relative 2e-7 for exponents up
  // to 1, of which 0 and 1 are exact, and 5e-7 above.
  void (*power)(const float* priorities, float* masses, size_t count, float floor, float exponent);

  // Sets leaves and all sums above them. Of a leaf that is named twice the later mass holds.
  void (*set)(const TreeArrays& tree, const uint32_t* leaves, const float* masses, size_t count);

  // The leaf under which each target in [0, total] falls; targets ascend, and are overwritten.
  // total > 0.
  void (*find)(const TreeArrays& tree, double* targets, uint32_t* leaves, size_t count);

  // One target from each of `count` equal parts of [0, total], ascending: (i + u_i) * total / count
  // with u_i uniform over 52 bits, a function of key and i alone.
  void (*stratify)(uint64_t key, double total, double* targets, size_t count);
};

// Those that run on this machine, the fastest first. Never empty: the last is "portable".
std::span<const Kernel* const> kernels();

// The fastest, or the one that the environment names in DRLNET_KERNEL, for measurement and tests.
// Throws Error(config) when that one does not exist or does not run here.
const Kernel& chosen_kernel();

}  // namespace drlnet
