// AVX-512 (F, VL, DQ, BW): a family is a vector.
#if defined(__x86_64__)
#include <immintrin.h>

#include "sampler/kernels/elementwise.h"
#include "sampler/kernels/kernel.h"
#include "sampler/kernels/turned.h"
#include "sampler/kernels/walk.h"

namespace drlnet {
namespace {

struct Eight {
  __m512d low, high;
};

struct Node : Turned<Node> {
  static constexpr size_t kSecondCacheBytes = size_t{1} << 20;
  static constexpr size_t kBlock = 64, kLag = 0;

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
  static double sum4(__m256d quad) {
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(quad), _mm256_extractf128_pd(quad, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
  }
  // One of each vector.
  [[gnu::always_inline]] static __m512d sums_of(const __m512d (&x)[8]) {
    constexpr int kLow = 0x44, kHigh = 0xEE, kEven = 0x88, kOdd = 0xDD;
    const auto halves = [](__m512d a, __m512d b) __attribute__((always_inline)) {
      return _mm512_add_pd(_mm512_shuffle_f64x2(a, b, kLow), _mm512_shuffle_f64x2(a, b, kHigh));
    };
    const auto quarters = [](__m512d a, __m512d b) __attribute__((always_inline)) {
      return _mm512_add_pd(_mm512_shuffle_f64x2(a, b, kEven), _mm512_shuffle_f64x2(a, b, kOdd));
    };
    const __m512d even = quarters(halves(x[0], x[2]), halves(x[4], x[6]));
    const __m512d odd = quarters(halves(x[1], x[3]), halves(x[5], x[7]));
    return _mm512_add_pd(_mm512_unpacklo_pd(even, odd), _mm512_unpackhi_pd(even, odd));
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

  static __m512d folded(const double* family) { return _mm512_load_pd(family); }
  static __m512d folded(const float* family) {
    return _mm512_add_pd(_mm512_cvtps_pd(_mm256_load_ps(family)),
                         _mm512_cvtps_pd(_mm256_load_ps(family + 8)));
  }
  // One family alone by halves of a vector, which more of the processor's units add.
  static double sum(const float* family) {
    const auto four = [&](uint32_t i) { return _mm256_cvtps_pd(_mm_load_ps(family + i)); };
    return sum4(_mm256_add_pd(_mm256_add_pd(four(0), four(8)), _mm256_add_pd(four(4), four(12))));
  }
  static double sum(const double* family) {
    return sum4(_mm256_add_pd(_mm256_load_pd(family), _mm256_load_pd(family + 4)));
  }
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

  // What turned.h asks for.
  using Doubles = __m512d;
  using Floats = __m512;
  static constexpr uint32_t kDoubles = 8, kFloats = 16;

  [[gnu::always_inline]] static __m512d load(const double* x) { return _mm512_loadu_pd(x); }
  [[gnu::always_inline]] static void store(double* to, __m512d x) { _mm512_storeu_pd(to, x); }
  [[gnu::always_inline]] static __m512 narrow(const double* x) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(_mm512_loadu_pd(x))),
                              _mm512_cvtpd_ps(_mm512_loadu_pd(x + 8)), 1);
  }

  // Two neighbours each of eight families, which begin at families[i] * kFan.
  [[gnu::always_inline]] static void turn(const double* children, const uint32_t* families,
                                          __m512d* turned) {
    __m512d x[2];
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; ++i) {
      const auto pair = [&](uint32_t lane) __attribute__((always_inline)) {
        return _mm_load_pd(children + size_t{families[i + 2 * lane]} * kFan);
      };
      x[i] = _mm512_castpd128_pd512(pair(0));
      x[i] = _mm512_insertf64x2(x[i], pair(1), 1);
      x[i] = _mm512_insertf64x2(x[i], pair(2), 2);
      x[i] = _mm512_insertf64x2(x[i], pair(3), 3);
    }
    turned[0] = _mm512_unpacklo_pd(x[0], x[1]);
    turned[1] = _mm512_unpackhi_pd(x[0], x[1]);
  }
  // Four neighbours each of sixteen.
  [[gnu::always_inline]] static void turn(const float* children, const uint32_t* families,
                                          __m512* turned) {
    __m512 x[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      const auto quad = [&](uint32_t lane) __attribute__((always_inline)) {
        return _mm_load_ps(children + size_t{families[i + 4 * lane]} * kLeaves);
      };
      x[i] = _mm512_castps128_ps512(quad(0));
      x[i] = _mm512_insertf32x4(x[i], quad(1), 1);
      x[i] = _mm512_insertf32x4(x[i], quad(2), 2);
      x[i] = _mm512_insertf32x4(x[i], quad(3), 3);
    }
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(x[0], x[1]));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(x[2], x[3]));
    const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(x[0], x[1]));
    const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(x[2], x[3]));
    turned[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
    turned[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
    turned[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
    turned[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
  }

  static __mmask8 at_most(__m512d a, __m512d b) { return _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ); }
  static __mmask16 at_most(__m512 a, __m512 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
  static __mmask16 above(__m512 a, __m512 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
  static uint32_t flags(uint32_t mask) { return mask; }
  static __m512d choice(__m512d no, __mmask8 yes, __m512d a) {
    return _mm512_mask_mov_pd(no, yes, a);
  }
  static __m512 choice(__m512 no, __mmask16 yes, __m512 a) {
    return _mm512_mask_mov_ps(no, yes, a);
  }

  using DoublesIndex = __m256i;
  using FloatsIndex = __m512i;
  static void add(__m256i& x, __mmask8 to, uint32_t n) {
    x = _mm256_mask_add_epi32(x, to, x, _mm256_set1_epi32(static_cast<int>(n)));
  }
  static void add(__m512i& x, __mmask16 to, uint32_t n) {
    x = _mm512_mask_add_epi32(x, to, x, _mm512_set1_epi32(static_cast<int>(n)));
  }
  // From families to children.
  static void descend(uint32_t* places, uint32_t bits, __m256i child) {
    const __m256i first = _mm256_slli_epi32(_mm256_loadu_epi32(places), bits);
    _mm256_storeu_epi32(places, _mm256_add_epi32(first, child));
  }
  static void descend(uint32_t* places, uint32_t bits, __m512i child) {
    const __m512i first = _mm512_slli_epi32(_mm512_loadu_si512(places), bits);
    _mm512_storeu_si512(places, _mm512_add_epi32(first, child));
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
