#include "replay/freshness.h"

#include <doctest/doctest.h>

#include <memory>

#include "base/metrics.h"

namespace drlnet::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// Rows come at a rate, marks every so often; the newest params are version `version`.
struct Inserted {
  std::unique_ptr<Freshness> freshness = std::make_unique<Freshness>();
  uint64_t head = 0, now = 5 * kSecond, version = 0, oldest = 0;

  Inserted() { mark(); }
  void mark() { freshness->mark({head, now, version}, oldest); }
  void pass(uint64_t seconds, uint64_t rows_per_s, uint64_t versions_per_s = 0,
            uint64_t marks_per_s = 1) {
    for (uint64_t i = 0; i < seconds * marks_per_s; ++i) {
      head += rows_per_s / marks_per_s;
      version += versions_per_s / marks_per_s;
      now += kSecond / marks_per_s;
      mark();
    }
  }
  double age_s(uint64_t number) {
    const HistogramReading before(freshness->ages());
    freshness->drawn(number, head, now);
    const HistogramReading drawn = HistogramReading(freshness->ages()).since(before);
    REQUIRE(drawn.count == 1);
    return static_cast<double>(drawn.sum_ns) / 1e9;
  }
};

}  // namespace

TEST_CASE("a row's age lies between the marks beside it, whatever the rate") {
  Inserted rows;
  rows.pass(10, 1000);
  rows.pass(10, 50);  // the last of these rows is 10'500
  CHECK(rows.age_s(0) == doctest::Approx(20));
  CHECK(rows.age_s(2500) == doctest::Approx(17.5));
  CHECK(rows.age_s(10'000) == doctest::Approx(10));
  CHECK(rows.age_s(10'250) == doctest::Approx(5));
  rows.now += kSecond;  // more rows, and no mark yet
  rows.head += 100;
  CHECK(rows.age_s(rows.head - 50) == doctest::Approx(0.5));
  CHECK(rows.age_s(10'250) == doctest::Approx(6));
}

TEST_CASE("a pause between two rows belongs to neither") {
  Inserted rows;
  rows.pass(4, 100);
  rows.pass(1000, 0);
  CHECK(rows.freshness->marks() == 6);
  rows.pass(2, 100);
  CHECK(rows.age_s(200) == doctest::Approx(1004));
  CHECK(rows.age_s(399) == doctest::Approx(1002.01));
  CHECK(rows.age_s(400) == doctest::Approx(2));
  CHECK(rows.age_s(599) == doctest::Approx(0.01));
}

TEST_CASE("marks may come without end: their room is bounded and ages stay within a percent") {
  for (const uint64_t capacity : {UINT64_MAX, uint64_t{100'000}}) {
    CAPTURE(capacity);
    Inserted rows;
    for (int i = 0; i < 50; ++i) {
      rows.pass(100, i % 2 ? 1000 : 500, 0, 20);
      rows.oldest = rows.head > capacity ? rows.head - capacity : 0;
    }
    CHECK(rows.freshness->marks() <= 512);
    const uint64_t held = rows.head - rows.oldest;
    for (int i = 1; i < 100; ++i) {
      const uint64_t back = held * static_cast<uint64_t>(i) / 100;
      // Going back 150'000 rows takes 100 s at 1000 per second and 100 s at 500.
      const uint64_t pairs = back / 150'000, rest = back % 150'000;
      const double expected = static_cast<double>(pairs) * 200 +
                              (rest <= 100'000 ? static_cast<double>(rest) / 1000
                                               : 100 + static_cast<double>(rest - 100'000) / 500);
      const double span = static_cast<double>(held) / 750;
      CAPTURE(i);
      CHECK(std::abs(rows.age_s(rows.head - back) - expected) <= 0.01 * span);
    }
  }
}

TEST_CASE("versions are counted since a row came") {
  Inserted rows;
  rows.pass(10, 1000, 10);
  rows.age_s(rows.head - 2000);
  CHECK(rows.freshness->versions_behind() == doctest::Approx(20));
  for (int i = 0; i < 5000; ++i) rows.age_s(rows.head - 500);
  CHECK(rows.freshness->versions_behind() == doctest::Approx(5).epsilon(0.01));  // of late
}

TEST_CASE("without a mark nothing is known, and nothing is said") {
  Freshness freshness;
  freshness.drawn(3, 10, kSecond);
  CHECK(freshness.ages().count() == 0);
  CHECK(freshness.versions_behind() == 0);
}

}  // namespace drlnet::test
