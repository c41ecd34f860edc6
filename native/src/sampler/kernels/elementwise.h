// Loops over independent elements, which the compiler turns into vectors of the width that the
// including file is compiled for. Every operation is one that IEEE 754 rounds correctly, in a fixed
// order, so all kernels agree to the bit. Only for kernels: see kernel.h.
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace drlnet {
namespace {

constexpr double kTwo52 = 0x1.0p52;
constexpr uint64_t kTwo52Bits = __builtin_bit_cast(uint64_t, kTwo52);
constexpr uint64_t kOneBits = __builtin_bit_cast(uint64_t, 1.0);

// The coefficients below are those of the least maximal error (Remez). Polynomials are summed by
// halves (Estrin), so that the multiplications need not wait for one another.

constexpr float kTwo23 = 0x1.0p23f;
constexpr uint32_t kTwo23Bits = __builtin_bit_cast(uint32_t, kTwo23);
constexpr uint32_t kMantissaBits = 23, kBias = 127;
constexpr uint32_t kOneFloatBits = __builtin_bit_cast(uint32_t, 1.0f);
constexpr uint32_t kRootHalfBits = __builtin_bit_cast(uint32_t, 0.707106781f);

// log2 of m in [sqrt(1/2), sqrt(2)): r = m - 1 times a polynomial in it, to 5e-8. The usual series
// in (m-1) / (m+1) has half the terms, but a division takes longer than the other half.
[[gnu::always_inline]] inline float log2_of(float m) {
  const float r = m - 1;
  const float r2 = r * r, r4 = r2 * r2;
  const float low = (1.44269478f - 0.721357167f * r) + (0.480939448f - 0.360087216f * r) * r2;
  const float high = (0.286707461f - 0.250069052f * r) + (0.236890376f - 0.145744473f * r) * r2;
  return (low + high * r4) * r;
}

// 2^f for |f| <= 1/2 or little more: 1 and f times a polynomial in it, to 2e-9.
[[gnu::always_inline]] inline float exp2_of(float f) {
  const float f2 = f * f;
  const float low = (0.693147182f + 0.240226477f * f) + (0.0555033237f + 0.00961843692f * f) * f2;
  const float high = 0.00133988739f + 0.00015353362f * f;
  return 1 + (low + high * (f2 * f2)) * f;
}

// With priority = 2^e m, m as above, the power is 2^y where y = exponent * (e + log2 m), which is
// taken apart into a whole number and a fraction. Its greater part is exponent * e: with the upper
// 16 bits of the exponent, of which a product with e is exact, and with the others, of which it is
// small. So in float32 little is lost, and a vector holds twice as many as in float64.
[[gnu::always_inline]] inline float power_of(float priority, float exponent) {
  constexpr float kRound = 1.5f * kTwo23;  // adding it rounds to a whole number
  const auto bits = __builtin_bit_cast(uint32_t, priority);
  const uint32_t biased = (bits + (kOneFloatBits - kRootHalfBits)) >> kMantissaBits;  // e + kBias
  const auto m = __builtin_bit_cast(float, bits - (biased << kMantissaBits) + kOneFloatBits);
  // A small integer becomes a float by standing in the mantissa of 2^23.
  const float e = __builtin_bit_cast(float, biased | kTwo23Bits) - (kTwo23 + kBias);
  const auto upper =
      __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, exponent) & 0xFFFFFF00u);
  const float large = upper * e, small = exponent * log2_of(m);
  const float y = large + small;
  const float shifted = y + kRound, whole = shifted - kRound;
  const float f = (large - whole) + (small + (exponent - upper) * e);
  // `whole` stands in the low bits of `shifted`; there it moves up into the exponent.
  const auto scaled =
      static_cast<int32_t>(__builtin_bit_cast(uint32_t, exp2_of(f)) +
                           (__builtin_bit_cast(uint32_t, shifted) << kMantissaBits));
  // Near both ends the bits of a number too large or too small for float32, as integers, are so
  // too; further out they come round again.
  constexpr auto kLeast = __builtin_bit_cast(int32_t, FLT_MIN);
  constexpr auto kMost = __builtin_bit_cast(int32_t, FLT_MAX);
  const int32_t above = scaled > kLeast ? scaled : kLeast;
  const float kept = __builtin_bit_cast(float, above < kMost ? above : kMost);
  return y < -126.5f ? FLT_MIN : y > 128.25f ? FLT_MAX : kept;
}

void power(const float* priorities, float* masses, size_t count, float floor, float exponent) {
  if (exponent == 1) {  // exactly
    for (size_t i = 0; i < count; ++i) {
      masses[i] = priorities[i] > floor ? priorities[i] : floor;
    }
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    masses[i] = power_of(priorities[i] > floor ? priorities[i] : floor, exponent);
  }
}

void stratify(uint64_t key, double total, double* targets, size_t count) {
  const double part = total / static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t word = splitmix64(key + i * kSplitMixStep);
    const double uniform = __builtin_bit_cast(double, word >> 12 | kOneBits) - 1;
    const double index = __builtin_bit_cast(double, i | kTwo52Bits) - kTwo52;
    targets[i] = (index + uniform) * part;
  }
}

}  // namespace
}  // namespace drlnet
