#include "spec/table_spec.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "base/error.h"

namespace drlnet::test {
namespace {

TableSpec good() {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = 1000;
  spec.columns = {{"obs", DataType::f32, {4}}, {"action", DataType::i64, {}}};
  spec.item.views = {{"obs", 0, -3, 0, Pad::repeat, Align::anchor},
                     {"next_obs", 0, 0, 3, Pad::repeat, Align::end}};
  spec.limiter = {.min_size = 10,
                  .samples_per_insert = 4,
                  .error_buffer = 100,
                  .batch = 16,
                  .prefetch = 2,
                  .append_burst = 10};
  return spec;
}

using Change = std::function<void(TableSpec&)>;

}  // namespace

TEST_CASE("what an item reads follows from its views") {
  const TableSpec spec = good();
  CHECK(spec.item.horizon() == 3);
  CHECK(spec.item.back() == 3);
  CHECK(spec.item.window() == 7);
  CHECK(spec.row_bytes() == 24);
  ItemSpec item{{{"next", 0, 1, 5, Pad::repeat, Align::end}}};
  CHECK(item.back() == 3);  // shifted down by up to 4
  item.boundary = Boundary::cross;
  CHECK(item.back() == 0);
}

TEST_CASE("compare names the first field that differs") {
  CHECK_FALSE(compare(good(), good()));
  const std::pair<const char*, Change> changes[] = {
      {"capacity: 1000 here, 2000 at the server", [](TableSpec& s) { s.capacity = 2000; }},
      {"number of columns", [](TableSpec& s) { s.columns.push_back({"x", DataType::u8, {}}); }},
      {"name of column 1: action here, actions at the server",
       [](TableSpec& s) { s.columns[1].name = "actions"; }},
      {"column 'obs': float32[4] here, float32[6] at the server",
       [](TableSpec& s) { s.columns[0].shape = {6}; }},
      {"column 'action': int64[] here, int32[] at the server",
       [](TableSpec& s) { s.columns[1].type = DataType::i32; }},
      {"number of views", [](TableSpec& s) { s.item.views.pop_back(); }},
      {"name of view 0", [](TableSpec& s) { s.item.views[0].name = "observation"; }},
      {"view 'next_obs'", [](TableSpec& s) { s.item.views[1].hi = 2; }},
      {"view 'next_obs'", [](TableSpec& s) { s.item.views[1].align = Align::anchor; }},
      {"view 'obs'", [](TableSpec& s) { s.item.views[0].pad = Pad::zero; }},
      {"boundary rule", [](TableSpec& s) { s.item.boundary = Boundary::cross; }},
      {"period", [](TableSpec& s) { s.item.period = 2; }},
      {"sampler: prioritized here, uniform at", [](TableSpec& s) { s.sampler.name = "uniform"; }},
      {"priority_exponent: 0.6 here, 0.5 at",
       [](TableSpec& s) { s.sampler.priority_exponent = 0.5; }},
      {"priority_floor", [](TableSpec& s) { s.sampler.priority_floor = 1e-3; }},
      {"sampler options", [](TableSpec& s) { s.sampler.options["k"] = 1; }},
      {"min_size", [](TableSpec& s) { s.limiter.min_size = 11; }},
      {"samples_per_insert", [](TableSpec& s) { s.limiter.samples_per_insert = 3; }},
      {"error_buffer", [](TableSpec& s) { s.limiter.error_buffer = 101; }},
      {"batch", [](TableSpec& s) { s.limiter.batch = 15; }},
      {"prefetch", [](TableSpec& s) { s.limiter.prefetch = 1; }},
      {"append_burst", [](TableSpec& s) { s.limiter.append_burst = 9; }},
      {"seed", [](TableSpec& s) { s.seed = 1; }},
  };
  for (const auto& [text, change] : changes) {
    TableSpec theirs = good();
    change(theirs);
    const auto found = compare(good(), theirs);
    REQUIRE_MESSAGE(found, text);
    CHECK_MESSAGE(found->find(text) != std::string::npos, *found);
  }
}

TEST_CASE("check refuses what cannot work, and says what to change") {
  CHECK_NOTHROW(check(good()));
  const std::pair<const char*, Change> changes[] = {
      {"name", [](TableSpec& s) { s.name.clear(); }},
      {"capacity", [](TableSpec& s) { s.capacity = 0; }},
      {"capacity", [](TableSpec& s) { s.capacity = (uint64_t{1} << 30) + 1; }},
      {"twice the item's window of 7", [](TableSpec& s) { s.capacity = 13; }},
      {"columns", [](TableSpec& s) { s.columns.clear(); }},
      {"column 'obs'", [](TableSpec& s) { s.columns[1].name = "obs"; }},
      {"extent", [](TableSpec& s) { s.columns[0].shape = {0}; }},
      {"128 KiB", [](TableSpec& s) { s.columns[0].shape = {65536, 65536, 65536}; }},
      {"192 KiB",
       [](TableSpec& s) {
         s.columns[0].shape = {30000};
         s.columns.push_back({"big", DataType::u8, {100000}});
       }},
      {"views", [](TableSpec& s) { s.item.views.clear(); }},
      {"view 'obs'", [](TableSpec& s) { s.item.views[0].column = 2; }},
      {"lo must not exceed hi", [](TableSpec& s) { s.item.views[0].lo = 1; }},
      {"period", [](TableSpec& s) { s.item.period = 0; }},
      {"priority_exponent", [](TableSpec& s) { s.sampler.priority_exponent = -1; }},
      {"priority_floor", [](TableSpec& s) { s.sampler.priority_floor = 0; }},
      {"float32's range", [](TableSpec& s) { s.sampler.priority_floor = 1e39; }},
      {"priority_floor", [](TableSpec& s) { s.sampler.priority_floor = std::nan(""); }},
      // Items of 7 rows in 1,000.
      {"could ever be drawn", [](TableSpec& s) { s.limiter.min_size = 995; }},
      {"exceeds the 25 items, one every 40 steps, that a capacity of 1000 rows holds",
       [](TableSpec& s) {
         s.item.period = 40;
         s.limiter.min_size = 26;
       }},
      {"samples_per_insert", [](TableSpec& s) { s.limiter.samples_per_insert = -1; }},
      {"must lie in [0, 1e15]", [](TableSpec& s) { s.limiter.error_buffer = std::nan(""); }},
      {"must lie in [0, 1e15]", [](TableSpec& s) { s.limiter.samples_per_insert = 1e300; }},
      {"option 'k' is not finite", [](TableSpec& s) { s.sampler.options["k"] = std::nan(""); }},
      // 16 * (2 + 1) + 4 * 10 = 88
      {"can deadlock", [](TableSpec& s) { s.limiter.error_buffer = 87; }},
  };
  for (const auto& [text, change] : changes) {
    TableSpec spec = good();
    change(spec);
    try {
      check(spec);
      FAIL(text);
    } catch (const Error& error) {
      CHECK(error.status() == Status::config);
      CHECK_MESSAGE(error.cause().find(text) != std::string::npos, error.cause());
      CHECK_FALSE(error.remedy().empty());
    }
  }
  TableSpec spec = good();
  spec.limiter.error_buffer = 88;
  spec.limiter.min_size = 994;
  CHECK_NOTHROW(check(spec));
  spec.item.period = 40;
  spec.limiter.min_size = 25;
  CHECK_NOTHROW(check(spec));
}

TEST_CASE("every shard must hold its part: windows of its own, and items for the first draw") {
  const auto refused = [](const TableSpec& spec) {
    try {
      check(spec, 4);
    } catch (const Error& error) {
      return error.cause() + "; " + error.remedy();
    }
    return std::string();
  };
  TableSpec spec = good();  // items of 7 rows in 4 x 250
  spec.limiter.min_size = 976;
  CHECK(refused(spec) == "");
  spec.limiter.min_size = 977;
  CHECK(refused(spec).find("exceeds the 976 items, one every 1 steps, that a capacity of 1000 rows "
                           "in 4 shards holds") != std::string::npos);
  spec.limiter.min_size = 1;
  spec.capacity = 56;
  CHECK(refused(spec) == "");
  spec.capacity = 55;
  CHECK(refused(spec) ==
        "table 'replay': capacity 55, 13 in each of its shards, is under twice the item's window "
        "of 7 rows; set it to 56 or more");
}

}  // namespace drlnet::test
