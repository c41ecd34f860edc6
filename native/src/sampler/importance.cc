#include "sampler/importance.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "base/assert.h"
#include "sampler/kernels/kernel.h"

namespace drlnet {
namespace {

// By the formula, also for numbers that no draw has as a probability: one of 0 weighs
// infinitely more than others, and takes the weight from them.
void by_formula(std::span<const float> probabilities, float exponent, std::span<float> weights) {
  const auto power = [&](float probability) {
    return std::pow(static_cast<double>(probability), -static_cast<double>(exponent));
  };
  double greatest = 0;
  for (const float probability : probabilities) {
    const double weight = power(probability);
    if (weight > greatest || std::isnan(weight)) greatest = weight;  // NaN stays
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(power(probabilities[i]) / greatest);
  }
}

}  // namespace

void importance_weights(std::span<const float> probabilities, float exponent,
                        std::span<float> weights) {
  DRLNET_ASSERT(weights.size() == probabilities.size());
  // Positive numbers are ordered as their bits are, and integers compared many at a time.
  constexpr auto kLeast = std::bit_cast<int32_t>(FLT_MIN), kMost = std::bit_cast<int32_t>(FLT_MAX);
  int32_t least = kMost, greatest = kLeast;
  for (const float probability : probabilities) {
    const auto bits = std::bit_cast<int32_t>(probability);
    least = std::min(least, bits);
    greatest = std::max(greatest, bits);
  }
  if (least < kLeast || greatest > kMost || !(exponent >= 0 && exponent <= 4)) {
    return by_formula(probabilities, exponent, weights);
  }
  const auto rarest = std::bit_cast<float>(least);
  const Kernel& kernel = *kernels().front();
  float shares[256];
  for (size_t at = 0; at < weights.size(); at += std::size(shares)) {
    const size_t count = std::min(std::size(shares), weights.size() - at);
    for (size_t i = 0; i < count; ++i) shares[i] = rarest / probabilities[at + i];
    kernel.power(shares, weights.data() + at, count, FLT_MIN, exponent);
  }
}

}  // namespace drlnet
