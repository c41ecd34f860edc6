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
constexpr uint64_t kRootHalfBits = __builtin_bit_cast(uint64_t, 0.707106781186547524400844362105);

// The coefficients below are those of the least maximal absolute error (Remez). Polynomials are
// summed by halves (Estrin), so that the multiplications need not wait for one another.

// log2 of a positive normal number: e + log2 m, where x = 2^e m and m in [sqrt(1/2), sqrt(2)), and
// log2 m is (m-1) times a polynomial in it, to 3e-11. The usual series in (m-1) / (m+1) has half
// the terms, but a division takes longer than the other half.
[[gnu::always_inline]] inline double log2_of(double x) {
  const auto bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t biased = (bits + (kOneBits - kRootHalfBits)) >> 52;  // e + 1023
  const auto m = __builtin_bit_cast(double, bits - (biased << 52) + kOneBits);
  // A small integer becomes a double by standing in the mantissa of 2^52.
  const double e = __builtin_bit_cast(double, biased | kTwo52Bits) - (kTwo52 + 1023);
  const double r = m - 1;
  const double r2 = r * r, r4 = r2 * r2;
  const double low = (1.44269504111609729 - 0.721347532204015545 * r) +
                     (0.480898290684233533 - 0.360672104576269996 * r) * r2;
  const double middle = (0.28854160644042781 - 0.240526415275490452 * r) +
                        (0.206095265718202921 - 0.178758206305940681 * r) * r2;
  const double high = (0.158770364697179185 - 0.158321931555867873 * r) +
                      (0.156678020313314622 - 0.086139240398221033 * r) * r2;
  return e + (low + (middle + high * r4) * r4) * r;
}

// 2^y for |y| < 1000. With y = n + f, |f| <= 1/2: 2^n times 2^f, which is 1 and f times a
// polynomial in it, to 5e-11.
[[gnu::always_inline]] inline double exp2_of(double y) {
  constexpr double kRound = 1.5 * kTwo52;  // adding it rounds to a whole number
  const double shifted = y + kRound;
  const double f = y - (shifted - kRound);
  const double f2 = f * f;
  const double low = (0.693147180541258275 + 0.24022651076074935 * f) +
                     (0.0555041096447422396 + 0.00961803687463478671 * f) * f2;
  const double high =
      (0.00133334288292807106 + 0.000154671229086892624 * f) + 0.0000153154884902520121 * f2;
  const double power = 1 + (low + high * (f2 * f2)) * f;
  // n stands in the low bits of `shifted`; there it moves up into the exponent.
  return __builtin_bit_cast(
      double, __builtin_bit_cast(uint64_t, power) + (__builtin_bit_cast(uint64_t, shifted) << 52));
}

// The power is computed in float64 with a relative error under 2e-10, before its one rounding to
// float32: half a unit in the last place, and at most 0.004 of one.
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
