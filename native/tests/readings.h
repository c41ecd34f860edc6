// One reading out of a list of metrics.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "base/metrics.h"

namespace drlnet::test {

template <typename T>
T reading(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics.list()) {
    if (key == name) return std::get<T>(value);
  }
  FAIL("no metric of that name: " << name);
  return {};
}

inline bool has_reading(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics.list()) {
    if (key == name) return true;
  }
  return false;
}

}  // namespace drlnet::test
