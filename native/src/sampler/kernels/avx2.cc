// AVX2: a family of leaves, in float64, is four vectors, one of nodes two.
#if defined(__x86_64__)
#include <immintrin.h>

#include "sampler/kernels/elementwise.h"
#include "sampler/kernels/kernel.h"
#include "sampler/kernels/turned.h"
#include "sampler/kernels/walk.h"

namespace drlnet {
namespace {

struct Four {
  __m256d q0, q1, q2, q3;
};
// Lanes as wide as what is compared: all bits set, or none.
typedef int64_t FourFlags __attribute__((vector_size(32)));
typedef int32_t EightFlags __attribute__((vector_size(32)));

struct Node : Turned<Node> {
  static constexpr size_t kSecondCacheBytes = size_t{1} << 18;
  static constexpr size_t kBlock = 32, kLag = kBlock;

  static Four widen(const float* family) {
    return {_mm256_cvtps_pd(_mm_load_ps(family)), _mm256_cvtps_pd(_mm_load_ps(family + 4)),
            _mm256_cvtps_pd(_mm_load_ps(family + 8)), _mm256_cvtps_pd(_mm_load_ps(family + 12))};
  }

  // Inclusive prefix sums; the order of additions is in walk.h. Zen moves nothing across the middle
  // faster than permute2f128 does.
  static __m256d scan4(__m256d x) {
    x = _mm256_add_pd(x, _mm256_unpacklo_pd(_mm256_setzero_pd(), x));
    return _mm256_add_pd(x, _mm256_permute_pd(_mm256_permute2f128_pd(x, x, 0x08), 0b1100));
  }
  static __m256d last(__m256d x) {
    return _mm256_permute_pd(_mm256_permute2f128_pd(x, x, 0x11), 0b1111);
  }
  static Four scan16(Four x) {
    x = {scan4(x.q0), scan4(x.q1), scan4(x.q2), scan4(x.q3)};
    x.q1 = _mm256_add_pd(x.q1, last(x.q0));
    x.q3 = _mm256_add_pd(x.q3, last(x.q2));
    const __m256d half = last(x.q1);
    x.q2 = _mm256_add_pd(x.q2, half);
    x.q3 = _mm256_add_pd(x.q3, half);
    return x;
  }
  // By halves, until one vector is left.
  static __m256d folded(const double* family) {
    return _mm256_add_pd(_mm256_load_pd(family), _mm256_load_pd(family + 4));
  }
  static __m256d folded(const float* family) {
    const Four x = widen(family);
    return _mm256_add_pd(_mm256_add_pd(x.q0, x.q2), _mm256_add_pd(x.q1, x.q3));
  }
  template <typename T>
  static double sum(const T* family) {
    const __m256d quad = folded(family);
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(quad), _mm256_extractf128_pd(quad, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
  }

  // Four bytes for each child.
  static __m256i at_most(__m256d low, __m256d high, __m256d target) {
    return _mm256_packs_epi32(reinterpret_cast<__m256i>(low <= target),
                              reinterpret_cast<__m256i>(high <= target));
  }
  static uint32_t not_above(Four x, double target) {
    const __m256d t = _mm256_set1_pd(target);
    const __m256i packed = _mm256_packs_epi16(at_most(x.q0, x.q1, t),
                                              at_most(x.q2, x.q3, t));  // two bytes for each child
    return static_cast<uint32_t>(
               __builtin_popcount(static_cast<uint32_t>(_mm256_movemask_epi8(packed)))) /
           2;
  }

  static double scan(const double* family, double* before) {
    const __m256d low = scan4(_mm256_load_pd(family));
    const __m256d high = _mm256_add_pd(scan4(_mm256_load_pd(family + 4)), last(low));
    const __m256d total = last(high);
    // By one place.
    const __m256d low_up = _mm256_permute2f128_pd(low, low, 0x08);
    const __m256d high_up = _mm256_permute2f128_pd(low, high, 0x21);
    _mm256_store_pd(before, hide(_mm256_shuffle_pd(low_up, low, 0b0101), total));
    _mm256_store_pd(before + 4, hide(_mm256_shuffle_pd(high_up, high, 0b0101), total));
    return _mm256_cvtsd_f64(total);
  }
  // What comes before each sibling, infinite where nothing follows.
  static __m256d hide(__m256d before, __m256d total) {
    const __m256d behind = _mm256_cmp_pd(before, total, _CMP_EQ_OQ);
    return _mm256_blendv_pd(before, _mm256_set1_pd(__builtin_inf()), behind);
  }

  static uint32_t not_above(__m256d low, __m256d high, double target) {
    const __m256d t = _mm256_set1_pd(target);
    return static_cast<uint32_t>(
        __builtin_popcount(flags(reinterpret_cast<EightFlags>(at_most(low, high, t)))));
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

  // What turned.h asks for.
  using Doubles = __m256d;
  using Floats = __m256;
  static constexpr uint32_t kDoubles = 4, kFloats = 8;

  [[gnu::always_inline]] static __m256d load(const double* x) { return _mm256_loadu_pd(x); }
  [[gnu::always_inline]] static void store(double* to, __m256d x) { _mm256_storeu_pd(to, x); }
  [[gnu::always_inline]] static __m256 narrow(const double* x) {
    return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(x + 4)),
                           _mm256_cvtpd_ps(_mm256_loadu_pd(x)));
  }

  // Two neighbours each of four families, which begin at families[i] * kFan.
  [[gnu::always_inline]] static void turn(const double* children, const uint32_t* families,
                                          __m256d* turned) {
    const auto pair = [&](uint32_t i) __attribute__((always_inline)) {
      return _mm_load_pd(children + size_t{families[i]} * kFan);
    };
    const __m256d even = _mm256_insertf128_pd(_mm256_castpd128_pd256(pair(0)), pair(2), 1);
    const __m256d odd = _mm256_insertf128_pd(_mm256_castpd128_pd256(pair(1)), pair(3), 1);
    turned[0] = _mm256_unpacklo_pd(even, odd);
    turned[1] = _mm256_unpackhi_pd(even, odd);
  }
  // Four neighbours each of eight.
  [[gnu::always_inline]] static void turn(const float* children, const uint32_t* families,
                                          __m256* turned) {
    __m256 x[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      const auto quad = [&](uint32_t half) __attribute__((always_inline)) {
        return _mm_load_ps(children + size_t{families[i + 4 * half]} * kLeaves);
      };
      x[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(quad(0)), quad(1), 1);
    }
    const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(x[0], x[1]));
    const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(x[2], x[3]));
    const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(x[0], x[1]));
    const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(x[2], x[3]));
    turned[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23));
    turned[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23));
    turned[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23));
    turned[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23));
  }

  static FourFlags at_most(__m256d a, __m256d b) { return a <= b; }
  static EightFlags at_most(__m256 a, __m256 b) { return a <= b; }
  static EightFlags above(__m256 a, __m256 b) { return a > b; }
  static uint32_t flags(FourFlags x) {
    return static_cast<uint32_t>(_mm256_movemask_pd(reinterpret_cast<__m256d>(x)));
  }
  static uint32_t flags(EightFlags x) {
    return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(x)));
  }
  static __m256d choice(__m256d no, FourFlags yes, __m256d a) { return yes ? a : no; }
  static __m256 choice(__m256 no, EightFlags yes, __m256 a) { return yes ? a : no; }

  using DoublesIndex = FourFlags;
  using FloatsIndex = EightFlags;
  static void add(FourFlags& x, FourFlags to, uint32_t n) { x += to & n; }
  static void add(EightFlags& x, EightFlags to, uint32_t n) { x += to & static_cast<int32_t>(n); }
  // From families to children.
  static void descend(uint32_t* places, uint32_t bits, FourFlags child) {
    const __m256 x = reinterpret_cast<__m256>(child);
    const __m128i narrow = _mm_castps_si128(_mm_shuffle_ps(
        _mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1), 0x88));  // the lower halves
    auto* at = reinterpret_cast<__m128i*>(places);
    const __m128i first = _mm_slli_epi32(_mm_loadu_si128(at), static_cast<int>(bits));
    _mm_storeu_si128(at, _mm_add_epi32(first, narrow));
  }
  static void descend(uint32_t* places, uint32_t bits, EightFlags child) {
    auto* at = reinterpret_cast<__m256i*>(places);
    const __m256i first = _mm256_slli_epi32(_mm256_loadu_si256(at), static_cast<int>(bits));
    _mm256_storeu_si256(at, _mm256_add_epi32(first, reinterpret_cast<__m256i>(child)));
  }

  // One of each vector.
  [[gnu::always_inline]] static __m256d sums_of(const __m256d (&x)[4]) {
    const auto halves = [](__m256d a, __m256d b) __attribute__((always_inline)) {
      return _mm256_add_pd(_mm256_permute2f128_pd(a, b, 0x20), _mm256_permute2f128_pd(a, b, 0x31));
    };
    const __m256d even = halves(x[0], x[2]), odd = halves(x[1], x[3]);
    return _mm256_add_pd(_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd));
  }
};

bool runs_here() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"); }

}  // namespace

extern const Kernel kAvx2Kernel = kernel_of<Node>("avx2", runs_here);

}  // namespace drlnet
#endif
