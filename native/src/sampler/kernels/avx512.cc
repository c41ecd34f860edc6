// AVX-512 (F, VL, DQ, BW): a family is a vector.
#if defined(__x86_64__)
#include <immintrin.h>

#include "sampler/kernels/elementwise.h"
#include "sampler/kernels/kernel.h"
#include "sampler/kernels/walk.h"

namespace drlnet {
namespace {

struct Eight {
  __m512d low, high;
};

struct Node {
  static Eight widen(__m512 masses) {
    return {_mm512_cvtps_pd(_mm512_castps512_ps256(masses)),
            _mm512_cvtps_pd(_mm512_extractf32x8_ps(masses, 1))};
  }

  // Inclusive prefix sums; the order of additions is in walk.h.
  static __m512d scan8(__m512d x) {
    x = _mm512_mask_add_pd(x, 0xAA, x, _mm512_movedup_pd(x));
    x = _mm512_mask_add_pd(x, 0xCC, x, _mm512_permutex_pd(x, 0x55));
    return _mm512_mask_add_pd(x, 0xF0, x, _mm512_permutexvar_pd(_mm512_set1_epi64(3), x));
  }
  static __m512d last(__m512d x) { return _mm512_permutexvar_pd(_mm512_set1_epi64(7), x); }
  static Eight scan16(Eight x) {
    const __m512d low = scan8(x.low);
    return {low, _mm512_add_pd(scan8(x.high), last(low))};
  }
  static __m512 scan16(__m512 x) {  // of float32
    x = _mm512_mask_add_ps(x, 0xAAAA, x, _mm512_moveldup_ps(x));
    x = _mm512_mask_add_ps(x, 0xCCCC, x, _mm512_permute_ps(x, 0x55));
    const __m512i low_quads = _mm512_mask_set1_epi32(_mm512_set1_epi32(3), 0xFF00, 11);
    x = _mm512_mask_add_ps(x, 0xF0F0, x, _mm512_permutexvar_ps(low_quads, x));
    return _mm512_mask_add_ps(x, 0xFF00, x, _mm512_permutexvar_ps(_mm512_set1_epi32(7), x));
  }
  static double sum8(__m512d eight) {
    const __m256d quad =
        _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(quad), _mm256_extractf128_pd(quad, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
  }
  static uint32_t not_above(__m512d x, double target) {
    return static_cast<uint32_t>(
        __builtin_popcount(_mm512_cmp_pd_mask(x, _mm512_set1_pd(target), _CMP_LE_OQ)));
  }
  static uint32_t not_above(Eight x, double target) {
    const __m512d t = _mm512_set1_pd(target);
    const __mmask8 low = _mm512_cmp_pd_mask(x.low, t, _CMP_LE_OQ);
    const __mmask8 high = _mm512_cmp_pd_mask(x.high, t, _CMP_LE_OQ);
    return static_cast<uint32_t>(__builtin_popcount(_mm512_kunpackb(high, low)));
  }
  static uint32_t not_above(__m512 x, float target) {
    const __mmask16 all = _mm512_cmp_ps_mask(x, _mm512_set1_ps(target), _CMP_LE_OQ);
    return static_cast<uint32_t>(__builtin_popcount(all));
  }

  static double sum(const float* family) {
    const Eight x = widen(_mm512_load_ps(family));
    return sum8(_mm512_add_pd(x.low, x.high));
  }
  static double sum(const double* family) { return sum8(_mm512_load_pd(family)); }
  static double scan(const double* family, double* before) {
    const __m512d through = scan8(_mm512_load_pd(family)), total = last(through);
    // By one place, and infinite where nothing follows.
    const __m512d earlier = _mm512_castsi512_pd(
        _mm512_alignr_epi64(_mm512_castpd_si512(through), _mm512_setzero_si512(), 7));
    const __mmask8 behind = _mm512_cmp_pd_mask(earlier, total, _CMP_EQ_OQ);
    _mm512_store_pd(before, _mm512_mask_mov_pd(earlier, behind, _mm512_set1_pd(__builtin_inf())));
    return _mm512_cvtsd_f64(total);
  }

  static uint32_t choose_before(const double* before, double& target) {
    const uint32_t child = not_above(_mm512_load_pd(before), target) - 1;
    target -= before[child];
    return child;
  }
  static uint32_t choose(const double* family, double& target) {
    alignas(64) double through[16];
    const __m512d x = scan8(_mm512_load_pd(family));
    through[7] = 0;
    _mm512_store_pd(through + 8, x);
    uint32_t child = not_above(x, target);
    if (child == kFan) [[unlikely]]
      child = last_above_zero<kFan>(family);
    target -= through[child + 7];
    return child;
  }
  [[gnu::noinline]] static uint32_t choose_leaf(const float* family, double target) {
    const uint32_t child = not_above(scan16(widen(_mm512_load_ps(family))), target);
    return child < kLeaves ? child : last_above_zero<kLeaves>(family);
  }
  // In float32 all sixteen leaves are one vector, and its prefix sums are off by four roundings at
  // most, which is 2^-22 of each. A target that lies further than that from all of them (and than
  // what rounding it to float32 takes, among denormal numbers too) falls where it does in float64,
  // for half the instructions; of the others float64 decides.
  static void choose_leaves(const float* leaves, const double* targets, uint32_t* places,
                            size_t count) {
    float least[kBlock], most[kBlock];
    for (size_t i = 0; i < count; ++i) {
      least[i] = static_cast<float>(targets[i] * (1 - 0x1p-21) - double{FLT_TRUE_MIN});
      most[i] = static_cast<float>(targets[i] * (1 + 0x1p-21) + double{FLT_TRUE_MIN});
    }
    for (size_t i = 0; i < count; ++i) {
      const size_t first = size_t{places[i]} * kLeaves;
      const __m512 through = scan16(_mm512_load_ps(leaves + first));
      const uint32_t surely = not_above(through, least[i]);
      uint32_t child = not_above(through, most[i]);
      if (child != surely || child == kLeaves) [[unlikely]]
        child = choose_leaf(leaves + first, targets[i]);
      places[i] = static_cast<uint32_t>(first) + child;
    }
  }
};

bool runs_here() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}

}  // namespace

extern const Kernel kAvx512Kernel = kernel_of<Node>("avx512", runs_here);

}  // namespace drlnet
#endif
