// A reading of named metrics: what `stats` carries. One flat list of (dotted name, value), so that
// a new metric is one line where it is measured and none anywhere else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/histogram.h"

namespace drlnet {

struct HistogramReading {
  uint64_t count = 0, sum_ns = 0, max_ns = 0;
  std::vector<std::pair<uint32_t, uint64_t>> buckets;  // (index, count), empty buckets left out
  double percentile_ns(double q) const;
};

using MetricValue = std::variant<uint64_t, double, std::string, HistogramReading>;

class Metrics {
 public:
  void set(std::string name, uint64_t value) { list_.emplace_back(std::move(name), value); }
  void set(std::string name, double value) { list_.emplace_back(std::move(name), value); }
  void set(std::string name, std::string value) {
    list_.emplace_back(std::move(name), std::move(value));
  }
  void set(std::string name, const Histogram& histogram);
  void set(std::string name, HistogramReading reading) {
    list_.emplace_back(std::move(name), std::move(reading));
  }
  const std::vector<std::pair<std::string, MetricValue>>& list() const { return list_; }

 private:
  std::vector<std::pair<std::string, MetricValue>> list_;
};

}  // namespace drlnet
