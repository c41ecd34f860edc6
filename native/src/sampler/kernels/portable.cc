// Plain C++, for every CPU.
#include "sampler/kernels/elementwise.h"
#include "sampler/kernels/kernel.h"
#include "sampler/kernels/walk.h"

namespace drlnet {
namespace {

// Two lanes: every 64-bit CPU has them.
typedef double Two __attribute__((vector_size(16)));
typedef int64_t TwoFlags __attribute__((vector_size(16)));

struct Node {
  static constexpr size_t kSecondCacheBytes = size_t{1} << 20;
  static constexpr size_t kBlock = 64, kLag = 0;

  template <uint32_t kCount>
  struct Sums {
    Two pair[kCount / 2];
  };

  template <uint32_t kCount, typename T>
  [[gnu::always_inline]] static Sums<kCount> load(const T* family) {
    Sums<kCount> sums;
    for (uint32_t i = 0; i < kCount / 2; ++i) {
      sums.pair[i] =
          Two{static_cast<double>(family[2 * i]), static_cast<double>(family[2 * i + 1])};
    }
    return sums;
  }
  // To `width` pairs from `block` on, what the one before them holds in all.
  [[gnu::always_inline]] static void carry(Two* pair, uint32_t block, uint32_t width) {
    const double all = pair[block - 1][1];
    for (uint32_t i = block; i < block + width; ++i) pair[i] += Two{all, all};
  }
  // Inclusive prefix sums; the order of additions is in walk.h.
  template <uint32_t kCount>
  [[gnu::always_inline]] static Sums<kCount> scan(Sums<kCount> sums) {
    Two* pair = sums.pair;
    for (uint32_t i = 0; i < kCount / 2; ++i) pair[i] += Two{0, pair[i][0]};
    for (uint32_t i = 1; i < kCount / 2; i += 2) carry(pair, i, 1);
    for (uint32_t i = 2; i < kCount / 2; i += 4) carry(pair, i, 2);
    if constexpr (kCount == 16) carry(pair, 4, 4);
    return sums;
  }
  template <uint32_t kCount>
  [[gnu::always_inline]] static double sum_of(Sums<kCount> sums) {
    Two* pair = sums.pair;
    for (uint32_t i = 0; kCount == 16 && i < 4; ++i) pair[i] += pair[i + 4];
    const Two all = (pair[0] + pair[2]) + (pair[1] + pair[3]);
    return all[0] + all[1];
  }
  template <uint32_t kCount>
  [[gnu::always_inline]] static uint32_t not_above(const Sums<kCount>& sums, double target) {
    TwoFlags count = {0, 0};
    for (const Two& pair : sums.pair) count -= pair <= Two{target, target};
    return static_cast<uint32_t>(count[0] + count[1]);
  }

  static double sum(const float* family) { return sum_of(load<kLeaves>(family)); }
  static double sum(const double* family) { return sum_of(load<kFan>(family)); }
  static double scan(const double* family, double* before) {
    const Sums<kFan> through = scan(load<kFan>(family));
    const double total = through.pair[kFan / 2 - 1][1];
    double earlier = 0;
    for (uint32_t i = 0; i < kFan / 2; ++i) {
      const Two first = {earlier, through.pair[i][0]};
      const Two shown = first == Two{total, total} ? Two{} + __builtin_inf() : first;
      __builtin_memcpy(before + 2 * i, &shown, sizeof shown);
      earlier = through.pair[i][1];
    }
    return total;
  }

  static uint32_t choose_before(const double* before, double& target) {
    const uint32_t child = not_above(load<kFan>(before), target) - 1;
    target -= before[child];
    return child;
  }
  static uint32_t choose(const double* family, double& target) {
    const Sums<kFan> sums = scan(load<kFan>(family));
    double through[1 + kFan];
    through[0] = 0;
    __builtin_memcpy(through + 1, sums.pair, sizeof sums.pair);
    uint32_t child = not_above(sums, target);
    if (child == kFan) [[unlikely]]
      child = last_above_zero<kFan>(family);
    target -= through[child];
    return child;
  }
  static uint32_t choose_leaf(const float* family, double target) {
    const uint32_t child = not_above(scan(load<kLeaves>(family)), target);
    return child < kLeaves ? child : last_above_zero<kLeaves>(family);
  }
  static void choose_nodes(const TreeArrays& tree, double* targets, uint32_t* places,
                           size_t count) {
    choose_each_node<Node>(tree, targets, places, count);
  }
  static void choose_leaves(const float* leaves, const double* targets, uint32_t* places,
                            size_t count) {
    choose_each_leaf<Node>(leaves, targets, places, count);
  }
  template <typename T>
  static void sum_all(const T* children, double* sums, uint32_t count) {
    sum_each<Node>(children, sums, count);
  }
};

}  // namespace

extern const Kernel kPortableKernel = kernel_of<Node>("portable", [] { return true; });

}  // namespace drlnet
