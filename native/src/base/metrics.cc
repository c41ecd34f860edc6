#include "base/metrics.h"

namespace drlnet {

double HistogramReading::percentile_ns(double q) const {
  if (count == 0) return 0;
  const uint64_t rank = Histogram::rank_of(q, count);
  uint64_t seen = 0;
  for (const auto& [index, n] : buckets) {
    seen += n;
    if (seen > rank) {
      return static_cast<double>(std::min(Histogram::middle_of(index), max_ns));
    }
  }
  return static_cast<double>(max_ns);
}

void Metrics::set(std::string name, const Histogram& histogram) {
  HistogramReading reading;
  reading.sum_ns = histogram.sum_ns();
  reading.max_ns = histogram.max_ns();
  for (uint32_t i = 0; i < Histogram::kBuckets; ++i) {
    if (const uint64_t n = histogram.bucket(i)) {
      reading.buckets.emplace_back(i, n);
      reading.count += n;
    }
  }
  set(std::move(name), std::move(reading));
}

}  // namespace drlnet
