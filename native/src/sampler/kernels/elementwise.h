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

constexpr double kLn2 = 0.693147180559945309417232121458;
constexpr double kTwo52 = 0x1.0p52;
constexpr uint64_t kTwo52Bits = __builtin_bit_cast(uint64_t, kTwo52);
constexpr uint64_t kOneBits = __builtin_bit_cast(uint64_t, 1.0);
constexpr uint64_t kRootHalfBits = __builtin_bit_cast(uint64_t, 0.707106781186547524400844362105);

// log2 of a positive normal number. With x = 2^e m, m in [sqrt(1/2), sqrt(2)), s = (m-1) / (m+1):
// log2 m = 2 / ln 2 * (s + s^3/3 + s^5/5 + ...). |s| < 0.172: six terms leave 3e-11.
[[gnu::always_inline]] inline double log2_of(double x) {
  const auto bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t biased = (bits + (kOneBits - kRootHalfBits)) >> 52;  // e + 1023
  const auto m = __builtin_bit_cast(double, bits - (biased << 52) + kOneBits);
  // A small integer becomes a double by standing in the mantissa of 2^52.
  const double e = __builtin_bit_cast(double, biased | kTwo52Bits) - (kTwo52 + 1023);
  const double s = (m - 1) / (m + 1);
  const double z = s * s, z2 = z * z;
  // By halves (Estrin), so that the multiplications need not wait for one another.
  const double low = (1.0 + 1.0 / 3 * z) + (1.0 / 5 + 1.0 / 7 * z) * z2;
  const double series = low + (1.0 / 9 + 1.0 / 11 * z) * (z2 * z2);
  return e + (2 / kLn2) * s * series;
}

// 2^y for |y| < 1000. With y = n + f, |f| <= 1/2: 2^n times the exponential series of f ln 2, whose
// terms up to the eighth power leave 3e-10 of it.
[[gnu::always_inline]] inline double exp2_of(double y) {
  constexpr double kRound = 1.5 * kTwo52;  // adding it rounds to a whole number
  const double shifted = y + kRound;
  const double f = (y - (shifted - kRound)) * kLn2;
  const double f2 = f * f, f4 = f2 * f2;
  const double low = (1.0 + f) + (1.0 / 2 + 1.0 / 6 * f) * f2;
  const double middle = (1.0 / 24 + 1.0 / 120 * f) + (1.0 / 720 + 1.0 / 5040 * f) * f2;
  const double series = low + (middle + 1.0 / 40320 * f4) * f4;
  // n stands in the low bits of `shifted`; there it moves up into the exponent.
  return __builtin_bit_cast(
      double, __builtin_bit_cast(uint64_t, series) + (__builtin_bit_cast(uint64_t, shifted) << 52));
}

// The power is computed in float64 with a relative error under 4e-10, before its one rounding to
// float32: half a unit in the last place, and at most 0.007 of one.
void power(const float* priorities, float* masses, size_t count, float floor, float exponent) {
  const auto lowest = static_cast<double>(floor), alpha = static_cast<double>(exponent);
  constexpr auto kLeast = static_cast<double>(FLT_MIN), kMost = static_cast<double>(FLT_MAX);
  for (size_t i = 0; i < count; ++i) {
    const auto priority = static_cast<double>(priorities[i]);
    const double raised = exp2_of(alpha * log2_of(priority > lowest ? priority : lowest));
    const double above = raised > kLeast ? raised : kLeast;
    masses[i] = static_cast<float>(above < kMost ? above : kMost);
  }
}

void random_words(uint64_t key, uint64_t* words, size_t count) {
  for (size_t i = 0; i < count; ++i) words[i] = splitmix64(key + i * kSplitMixStep);
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
