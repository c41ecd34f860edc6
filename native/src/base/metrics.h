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
  // (index, count) in order of index, empty buckets left out.
  std::vector<std::pair<uint32_t, uint64_t>> buckets;

  HistogramReading() = default;
  explicit HistogramReading(const Histogram& histogram);

  double percentile_ns(double q) const;
  // What was recorded after `earlier` was read; all of this where that counts more than we do and
  // hence is of another life. Its maximum is as near as a bucket tells unless it is a new one.
  HistogramReading since(const HistogramReading& earlier) const;
  // Those of both together.
  HistogramReading merged(const HistogramReading& other) const;
};

using MetricValue = std::variant<uint64_t, double, std::string, HistogramReading>;

class Metrics {
 public:
  void set(std::string name, uint64_t value) { list_.emplace_back(std::move(name), value); }
  void set(std::string name, double value) { list_.emplace_back(std::move(name), value); }
  void set(std::string name, std::string value) {
    list_.emplace_back(std::move(name), std::move(value));
  }
  void set(std::string name, HistogramReading reading) {
    list_.emplace_back(std::move(name), std::move(reading));
  }
  void set(std::string name, const Histogram& histogram) {
    set(std::move(name), HistogramReading(histogram));
  }
  void set(std::string name, MetricValue value) {
    list_.emplace_back(std::move(name), std::move(value));
  }
  // All of another list, each name behind the prefix.
  void add(const std::string& prefix, const Metrics& others);
  const std::vector<std::pair<std::string, MetricValue>>& list() const { return list_; }

 private:
  std::vector<std::pair<std::string, MetricValue>> list_;
};

}  // namespace drlnet
