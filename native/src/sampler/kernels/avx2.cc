// AVX2: a family of leaves, in float64, is four vectors, one of nodes two.
#if defined(__x86_64__)
#include <immintrin.h>

#include "sampler/kernels/elementwise.h"
#include "sampler/kernels/kernel.h"
#include "sampler/kernels/walk.h"

namespace drlnet {
namespace {

struct Four {
  __m256d q0, q1, q2, q3;
};

struct Node {
  static Four widen(const float* family) {
    return {_mm256_cvtps_pd(_mm_load_ps(family)), _mm256_cvtps_pd(_mm_load_ps(family + 4)),
            _mm256_cvtps_pd(_mm_load_ps(family + 8)), _mm256_cvtps_pd(_mm_load_ps(family + 12))};
  }

  // Inclusive prefix sums; the order of additions is in walk.h.
  static __m256d scan4(__m256d x) {
    const __m256d zero = _mm256_setzero_pd();
    x = _mm256_add_pd(x, _mm256_blend_pd(zero, _mm256_movedup_pd(x), 0b1010));
    return _mm256_add_pd(x, _mm256_blend_pd(zero, _mm256_permute4x64_pd(x, 0x55), 0b1100));
  }
  static __m256d last(__m256d x) { return _mm256_permute4x64_pd(x, 0xFF); }
  static Four scan16(Four x) {
    x = {scan4(x.q0), scan4(x.q1), scan4(x.q2), scan4(x.q3)};
    x.q1 = _mm256_add_pd(x.q1, last(x.q0));
    x.q3 = _mm256_add_pd(x.q3, last(x.q2));
    const __m256d half = last(x.q1);
    x.q2 = _mm256_add_pd(x.q2, half);
    x.q3 = _mm256_add_pd(x.q3, half);
    return x;
  }
  static double sum8(__m256d low, __m256d high) {
    const __m256d quads = _mm256_add_pd(low, high);
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(quads), _mm256_extractf128_pd(quads, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
  }
  static __m256i at_most(__m256d sums, __m256d target) {
    return _mm256_castpd_si256(_mm256_cmp_pd(sums, target, _CMP_LE_OQ));
  }
  static uint32_t not_above(Four x, double target) {
    const __m256d t = _mm256_set1_pd(target);
    const __m256i packed = _mm256_packs_epi16(
        _mm256_packs_epi32(at_most(x.q0, t), at_most(x.q1, t)),
        _mm256_packs_epi32(at_most(x.q2, t), at_most(x.q3, t)));  // two bytes for each child
    return static_cast<uint32_t>(
               __builtin_popcount(static_cast<uint32_t>(_mm256_movemask_epi8(packed)))) /
           2;
  }

  static double sum(const float* family) {
    const Four x = widen(family);
    return sum8(_mm256_add_pd(x.q0, x.q2), _mm256_add_pd(x.q1, x.q3));
  }
  static double sum(const double* family) {
    return sum8(_mm256_load_pd(family), _mm256_load_pd(family + 4));
  }
  static double scan(const double* family, double* before) {
    const __m256d low = scan4(_mm256_load_pd(family));
    const __m256d high = _mm256_add_pd(scan4(_mm256_load_pd(family + 4)), last(low));
    const __m256d total = last(high);
    _mm256_store_pd(before, hide(shift(low, _mm256_setzero_pd()), total));
    _mm256_store_pd(before + 4, hide(shift(high, low), total));
    return _mm256_cvtsd_f64(total);
  }
  // What comes before each sibling, infinite where nothing follows.
  static __m256d hide(__m256d before, __m256d total) {
    const __m256d behind = _mm256_cmp_pd(before, total, _CMP_EQ_OQ);
    return _mm256_blendv_pd(before, _mm256_set1_pd(__builtin_inf()), behind);
  }
  static __m256d shift(__m256d x, __m256d from) {
    return _mm256_blend_pd(_mm256_permute4x64_pd(x, 0x90), last(from), 0b0001);
  }

  static uint32_t not_above(__m256d low, __m256d high, double target) {
    const __m256d t = _mm256_set1_pd(target);
    const __m256i packed = _mm256_packs_epi32(at_most(low, t), at_most(high, t));
    const int flags = _mm256_movemask_ps(_mm256_castsi256_ps(packed));  // one for each child
    return static_cast<uint32_t>(__builtin_popcount(static_cast<uint32_t>(flags)));
  }
  static uint32_t choose_before(const double* before, double& target) {
    const uint32_t child =
        not_above(_mm256_load_pd(before), _mm256_load_pd(before + 4), target) - 1;
    target -= before[child];
    return child;
  }
  static uint32_t choose(const double* family, double& target) {
    alignas(32) double through[12];
    const __m256d low = scan4(_mm256_load_pd(family));
    const __m256d high = _mm256_add_pd(scan4(_mm256_load_pd(family + 4)), last(low));
    through[3] = 0;
    _mm256_store_pd(through + 4, low);
    _mm256_store_pd(through + 8, high);
    uint32_t child = not_above(low, high, target);
    if (child == kFan) [[unlikely]]
      child = last_above_zero<kFan>(family);
    target -= through[child + 3];
    return child;
  }
  static uint32_t choose_leaf(const float* family, double target) {
    const uint32_t child = not_above(scan16(widen(family)), target);
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

bool runs_here() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"); }

}  // namespace

extern const Kernel kAvx2Kernel = kernel_of<Node>("avx2", runs_here);

}  // namespace drlnet
#endif
