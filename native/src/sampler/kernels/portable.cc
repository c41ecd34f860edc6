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
  struct Sums {
    Two pair[kFan / 2];
  };

  template <typename T>
  [[gnu::always_inline]] static Sums load(const T* family) {
    Sums sums;
    for (uint32_t i = 0; i < kFan / 2; ++i) {
      sums.pair[i] =
          Two{static_cast<double>(family[2 * i]), static_cast<double>(family[2 * i + 1])};
    }
    return sums;
  }
  // Inclusive prefix sums; the order of additions is in walk.h.
  [[gnu::always_inline]] static Sums scan16(Sums sums) {
    Two* pair = sums.pair;
    for (uint32_t i = 0; i < 8; ++i) pair[i] += Two{0, pair[i][0]};
    for (uint32_t width = 1; width < 8; width *= 2) {
      for (uint32_t block = width; block < 8; block += 2 * width) {
        const double carry = pair[block - 1][1];
        for (uint32_t i = 0; i < width; ++i) pair[block + i] += Two{carry, carry};
      }
    }
    return sums;
  }
  template <typename T>
  [[gnu::always_inline]] static double sum16(const T* family) {
    double pairs[8];
    for (int i = 0; i < 8; ++i) {
      pairs[i] = static_cast<double>(family[2 * i]) + static_cast<double>(family[2 * i + 1]);
    }
    return ((pairs[0] + pairs[1]) + (pairs[2] + pairs[3])) +
           ((pairs[4] + pairs[5]) + (pairs[6] + pairs[7]));
  }
  [[gnu::always_inline]] static uint32_t not_above(const Sums& sums, double target) {
    TwoFlags count = {0, 0};
    for (const Two& pair : sums.pair) count -= pair <= Two{target, target};
    return static_cast<uint32_t>(count[0] + count[1]);
  }

  static double sum(const float* family) { return sum16(family); }
  static double sum(const double* family) { return sum16(family); }
  static double scan(const double* family, double* before) {
    const Sums through = scan16(load(family));
    const double total = through.pair[7][1];
    double earlier = 0;
    for (uint32_t i = 0; i < kFan; ++i) {
      before[i] = earlier == total ? __builtin_inf() : earlier;
      earlier = through.pair[i / 2][i % 2];
    }
    return total;
  }

  static uint32_t choose_before(const double* before, double& target) {
    const uint32_t child = not_above(load(before), target) - 1;
    target -= before[child];
    return child;
  }
  static uint32_t choose(const double* family, double& target) {
    const Sums sums = scan16(load(family));
    double through[1 + kFan];
    through[0] = 0;
    __builtin_memcpy(through + 1, sums.pair, sizeof sums.pair);
    uint32_t child = not_above(sums, target);
    if (child == kFan) [[unlikely]]
      child = last_above_zero(family);
    target -= through[child];
    return child;
  }
  static uint32_t choose_leaf(const float* family, double target) {
    const uint32_t child = not_above(scan16(load(family)), target);
    return child < kFan ? child : last_above_zero(family);
  }
};

}  // namespace

extern const Kernel kPortableKernel = kernel_of<Node>("portable", [] { return true; });

}  // namespace drlnet
