// Masses that are hard on sums of floats, and among which many targets are hard to place.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace drlnet::test {

enum class Masses {
  equal,
  twelve_orders,
  mostly_zero,
  mostly_zero_twenty_four_orders,
  giants,
  extremes,
  near_float_max,
  denormal,
};
constexpr Masses kMasses[] = {Masses::equal,          Masses::twelve_orders,
                              Masses::mostly_zero,    Masses::mostly_zero_twenty_four_orders,
                              Masses::giants,         Masses::extremes,
                              Masses::near_float_max, Masses::denormal};

inline float mass_of(Masses kind, Random& random) {
  const auto orders = [&](double count) {
    return static_cast<float>(std::pow(10.0, count * (random.uniform() - 0.5)));
  };
  switch (kind) {
    case Masses::equal:
      return 1;
    case Masses::twelve_orders:
      return orders(12);
    case Masses::mostly_zero:
      return random.below(30) == 0 ? static_cast<float>(random.uniform()) : 0.0f;
    case Masses::mostly_zero_twenty_four_orders:
      return random.below(40) == 0 ? orders(24) : 0.0f;
    case Masses::giants:
      return random.below(1000) == 0 ? 1e6f : 1e-6f;
    case Masses::extremes:
      return random.below(3) == 0 ? FLT_MAX : random.below(2) == 0 ? FLT_MIN : 0.0f;
    case Masses::near_float_max:
      return random.below(2) == 0 ? FLT_MAX : 1.0f;
    case Masses::denormal:
      return FLT_TRUE_MIN * static_cast<float>(random.below(5));
  }
  return 0;
}

// Not all of them 0.
inline std::vector<float> masses_of(Masses kind, uint32_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> masses(count);
  for (float& mass : masses) mass = mass_of(kind, random);
  float& one = masses[random.below(count)];
  if (one == 0) one = kind == Masses::denormal ? FLT_TRUE_MIN : 1.0f;
  return masses;
}

}  // namespace drlnet::test
