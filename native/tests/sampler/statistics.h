#pragma once

#include <cmath>
#include <vector>

namespace drlnet::test {

// How often something is drawn: under the sanitizers, which take five times as long, a fifth as
// often. There a test looks at memory; the other build has the statistics' whole power.
constexpr int draws(int count) {
#ifdef __SANITIZE_ADDRESS__
  return count / 5;
#else
  return count;
#endif
}

// Upper 1e-6 quantile of chi-square (Wilson and Hilferty): a seeded test that fails has a reason.
inline double chi_square_limit(double degrees) {
  const double z = 4.7534;
  const double a = 2 / (9 * degrees);
  return degrees * std::pow(1 - a + z * std::sqrt(a), 3);
}

// Pearson's statistic of counts against what was expected in each bin.
inline double chi_square(const std::vector<double>& counts, const std::vector<double>& expected) {
  double statistic = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    statistic += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  }
  return statistic;
}

}  // namespace drlnet::test
