#include "sampler/importance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

using namespace drlnet;

namespace {

std::vector<float> weights_of(const std::vector<float>& probabilities, float exponent) {
  std::vector<float> weights(probabilities.size());
  importance_weights(probabilities, exponent, weights);
  return weights;
}

}  // namespace

TEST_CASE("importance weights are the powers over the largest of them") {
  Random random(7);
  for (const size_t count : {1, 3, 32, 255, 256, 257, 1000}) {
    std::vector<float> probabilities;
    for (size_t i = 0; i < count; ++i) {
      probabilities.push_back(static_cast<float>(std::exp(-10 * random.uniform())));
    }
    for (const float exponent : {-0.5f, 0.0f, 0.4f, 1.0f, 3.0f, 7.0f}) {
      const auto weights = weights_of(probabilities, exponent);
      std::vector<double> powers;
      for (const float p : probabilities) powers.push_back(std::pow(p, -double{exponent}));
      const double greatest = *std::ranges::max_element(powers);
      for (size_t i = 0; i < count; ++i) {
        CHECK(std::abs(weights[i] / (powers[i] / greatest) - 1) < 1e-6);
      }
      CHECK(*std::ranges::max_element(weights) == 1);
    }
  }
}

TEST_CASE("an invalid probability has no weight, and leaves others none") {
  const auto weights = weights_of({0.5f, 0, 0.25f}, 0.4f);
  CHECK(weights[0] == 0);
  CHECK(std::isnan(weights[1]));
  CHECK(weights[2] == 0);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float weight : weights_of({0.5f, kNan, 0.25f}, 0.4f)) CHECK(std::isnan(weight));
}
