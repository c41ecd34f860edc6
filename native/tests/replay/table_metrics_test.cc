// What a table says of what is drawn from it, and of those that wait for it.
#include <doctest/doctest.h>

#include <cmath>

#include "base/random.h"
#include "readings.h"
#include "replay/request.h"
#include "replay/table.h"

namespace drlnet::test {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

TableSpec spec_of(const std::string& sampler) {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = 2000;
  spec.columns = {{"x", DataType::u32, {}}};
  spec.item.views = {{"x", 0, 0, 0, Pad::repeat, Align::anchor}};
  spec.sampler.name = sampler;
  spec.sampler.priority_exponent = 1;
  return spec;
}

// Appends one item for each priority.
void fill(Table& table, const std::vector<float>& priorities) {
  const Lease lease = table.streams().lease(1, 0);
  Request request(table.spec());
  request.segment(lease, 0);
  for (size_t i = 0; i < priorities.size(); ++i) {
    request.row(i == 0 ? kFirst : 0, std::vector<std::byte>(4));
    request.item(lease, i, priorities[i]);
  }
  REQUIRE(request.send(table) == Status::ok);
}

Metrics draw(Table& table, int batches, uint32_t batch) {
  DrawnBatch drawn;
  for (int i = 0; i < batches; ++i) {
    table.draw(batch, drawn);
    table.work_ahead(kMillisecond);
  }
  Metrics metrics;
  table.read_metrics("", metrics, kMillisecond);
  return metrics;
}

}  // namespace

TEST_CASE("the effective number of items follows from what is drawn") {
  Random random(8);
  std::vector<float> priorities(1000);
  double sum = 0, squares = 0;
  for (float& priority : priorities) {
    priority = static_cast<float>(std::pow(1 - random.uniform(), -0.3));
    sum += static_cast<double>(priority);
    squares += static_cast<double>(priority) * static_cast<double>(priority);
  }
  const double kish = sum * sum / squares;  // of 1000: some 800
  for (const uint32_t batch : {1u, 4u, 512u}) {
    CAPTURE(batch);
    Table skewed(spec_of("prioritized"), 0, 1);
    fill(skewed, priorities);
    CHECK(reading<double>(draw(skewed, 1000, batch), "effective_items") ==
          doctest::Approx(kish).epsilon(0.1));
    for (const char* sampler : {"uniform", "fifo"}) {
      CAPTURE(sampler);
      Table even(spec_of(sampler), 0, 1);
      fill(even, priorities);
      CHECK(reading<double>(draw(even, 10, batch), "effective_items") ==
            doctest::Approx(1000).epsilon(1e-4));
    }
  }
}

TEST_CASE("a table of which nothing was drawn says so") {
  Table table(spec_of("prioritized"), 0, 1);
  fill(table, {1, 2});
  const Metrics metrics = draw(table, 0, 1);
  CHECK(reading<double>(metrics, "effective_items") == 0);
  CHECK(reading<HistogramReading>(metrics, "sampled_age").count == 0);
  CHECK(reading<double>(metrics, "sampled_versions_behind") == 0);
}

TEST_CASE("every batch that is drawn has its age looked at, also when keys come round") {
  Table table(spec_of("prioritized"), 3, 7);
  table.mark(0, 1);
  fill(table, std::vector<float>(100, 1.0f));
  table.mark(kMillisecond / 2, 4);
  const auto age = reading<HistogramReading>(draw(table, 50, 16), "sampled_age");
  CHECK(age.count == 50);
  CHECK(age.percentile_ns(0) >= 0.49 * kMillisecond);
  CHECK(age.max_ns <= kMillisecond);
}

TEST_CASE("waits are counted once by reason, their time also while it runs") {
  WaitTimes waits;
  const auto times = [&](uint64_t now) {
    Metrics metrics;
    waits.read_counts("", metrics);
    waits.read_times("", metrics, now);
    return metrics;
  };
  const std::string samples = "limiter_wait_s.samples_limit", small = "limiter_wait_s.min_size";
  waits.begin(2, 1'000'000'000);
  waits.begin(2, 2'000'000'000);
  waits.begin(1, 2'500'000'000);
  CHECK(reading<double>(times(3'000'000'000), samples) == doctest::Approx(3));
  waits.end(2, 1'000'000'000, 4'000'000'000);
  CHECK(reading<double>(times(5'000'000'000), samples) == doctest::Approx(6));
  CHECK(reading<double>(times(5'000'000'000), small) == doctest::Approx(2.5));
  waits.end(2, 2'000'000'000, 5'000'000'000);
  waits.end(1, 2'500'000'000, 2'500'000'000);
  const Metrics after = times(9'000'000'000);
  CHECK(reading<double>(after, samples) == doctest::Approx(6));
  CHECK(reading<double>(after, small) == 0);
  CHECK(reading<uint64_t>(after, "limiter_waits.samples_limit") == 2);
  CHECK(reading<uint64_t>(after, "limiter_waits.min_size") == 1);
  CHECK(reading<uint64_t>(after, "limiter_waits.inserts_limit") == 0);
  CHECK_FALSE(has_reading(after, "limiter_waits.none"));
  waits.begin(3, 10'000'000'000);  // read by a thread whose clock is a moment behind
  CHECK(reading<double>(times(9'999'999'990), "limiter_wait_s.inserts_limit") == 0);
}

}  // namespace drlnet::test
