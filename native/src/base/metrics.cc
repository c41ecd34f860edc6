#include "base/metrics.h"

#include <algorithm>
#include <functional>

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

namespace {

using Buckets = std::vector<std::pair<uint32_t, uint64_t>>;

// Index by index of either list: combine(count in a, count in b), where it is not 0.
template <typename Combine>
Buckets combined(const Buckets& a, const Buckets& b, Combine combine) {
  Buckets result;
  result.reserve(std::max(a.size(), b.size()));
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool left = j == b.size() || (i < a.size() && a[i].first <= b[j].first);
    const bool right = i == a.size() || (j < b.size() && b[j].first <= a[i].first);
    const uint32_t index = left ? a[i].first : b[j].first;
    const uint64_t in_a = left ? a[i++].second : 0, in_b = right ? b[j++].second : 0;
    if (const uint64_t count = combine(in_a, in_b)) result.emplace_back(index, count);
  }
  return result;
}

}  // namespace

HistogramReading::HistogramReading(const Histogram& histogram)
    : sum_ns(histogram.sum_ns()), max_ns(histogram.max_ns()) {
  for (uint32_t i = 0; i < Histogram::kBuckets; ++i) {
    if (const uint64_t n = histogram.bucket(i)) {
      buckets.emplace_back(i, n);
      count += n;
    }
  }
}

HistogramReading HistogramReading::since(const HistogramReading& earlier) const {
  if (earlier.count > count || earlier.sum_ns > sum_ns) return *this;
  bool shrunk = false;
  HistogramReading result;
  result.buckets = combined(buckets, earlier.buckets, [&](uint64_t now, uint64_t then) {
    shrunk |= then > now;
    return now - then;
  });
  if (shrunk) return *this;
  result.count = count - earlier.count;
  result.sum_ns = sum_ns - earlier.sum_ns;
  if (max_ns > earlier.max_ns) {
    result.max_ns = max_ns;
  } else if (!result.buckets.empty()) {
    result.max_ns = std::min(Histogram::middle_of(result.buckets.back().first), max_ns);
  }
  return result;
}

HistogramReading HistogramReading::merged(const HistogramReading& other) const {
  HistogramReading result;
  result.count = count + other.count;
  result.sum_ns = sum_ns + other.sum_ns;
  result.max_ns = std::max(max_ns, other.max_ns);
  result.buckets = combined(buckets, other.buckets, std::plus<>());
  return result;
}

void Metrics::add(const std::string& prefix, const Metrics& others) {
  for (const auto& [name, value] : others.list()) set(prefix + name, value);
}

}  // namespace drlnet
