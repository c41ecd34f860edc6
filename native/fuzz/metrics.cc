// Metrics, as a client reads stats and a server reads reports.
#include "base/assert.h"
#include "fuzz.h"

namespace drlnet::fuzz {

std::vector<Bytes> seeds() {
  Metrics metrics;
  Histogram histogram;
  for (uint64_t value = 1; value < (uint64_t{1} << 45); value *= 3) histogram.record(value);
  metrics.set("count", uint64_t{3});
  metrics.set("share", 0.5);
  metrics.set("name", std::string("a name"));
  metrics.set("latency", histogram);
  std::vector<Bytes> list(2);
  encode(metrics, list[0]);
  encode_error("cause", "remedy", list[1]);
  return list;
}

void run(std::span<const std::byte> input) {
  const Bytes bytes = exact(input);
  std::string cause, remedy;
  decode_error(bytes, cause, remedy);
  Metrics metrics;
  if (!decode(bytes, metrics)) return;
  HistogramReading all;
  for (const auto& [name, value] : metrics.list()) {
    if (const auto* reading = std::get_if<HistogramReading>(&value)) {
      const HistogramReading before = all;
      all = all.merged(*reading);
      DRLNET_ASSERT(all.buckets.size() <= Histogram::kBuckets);
      for (const HistogramReading& any : {*reading, all, all.since(before)}) {
        for (const double q : {0.0, 0.5, 0.99, 1.0}) any.percentile_ns(q);
      }
    }
  }
  Bytes again;
  encode(metrics, again);
  DRLNET_ASSERT(again == bytes);
}

}  // namespace drlnet::fuzz
