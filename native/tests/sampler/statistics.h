#pragma once

#include <cmath>
#include <vector>

namespace drlnet::test {

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
