// The cases of a table that have names; the random ones are in table_random_test.cc.
#include "replay/table.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include "replay/request.h"

namespace drlnet::test {
namespace {

// Rows are their step number; obs [-2, 0], next_obs one row from the end, reward [1, 3].
TableSpec dqn_spec() {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = 64;
  spec.columns = {{"x", DataType::u32, {}}};
  spec.item.views = {{"obs", 0, -2, 0, Pad::repeat, Align::anchor},
                     {"next", 0, 3, 3, Pad::repeat, Align::end},
                     {"reward", 0, 1, 3, Pad::zero, Align::anchor}};
  return spec;
}

struct Fixture {
  explicit Fixture(TableSpec spec = dqn_spec())
      : table(std::move(spec), 0, 1), lease(table.streams().lease(1, 0)) {}

  // One row for each flag, its column its step number plus 100.
  Status append(const std::vector<uint8_t>& flags, const std::vector<uint64_t>& items = {}) {
    Request request(table.spec());
    request.segment(lease, next);
    for (const uint8_t flag : flags) request.row(flag, bytes(100 + static_cast<uint32_t>(next++)));
    for (const uint64_t step : items) request.item(lease, step, 1);
    return request.send(table, result);
  }
  static std::vector<std::byte> bytes(uint32_t value) {
    std::vector<std::byte> row(4);
    std::memcpy(row.data(), &value, 4);
    return row;
  }
  uint64_t metric(const std::string& name) const {
    Metrics metrics;
    table.read_metrics("", metrics, 0);
    for (const auto& [key, value] : metrics.list()) {
      if (key == name) return std::get<uint64_t>(value);
    }
    FAIL("no metric ", name);
    return 0;
  }
  // The item drawn, of a table that has one live item.
  std::map<std::string, std::vector<uint32_t>> only() {
    REQUIRE(table.live_items() == 1);
    table.draw(1, drawn);
    std::vector<std::byte> reply(table.layout().total_bytes(1));
    REQUIRE(table.gather(drawn, 0, reply));
    std::map<std::string, std::vector<uint32_t>> shown;
    for (size_t v = 0; v < table.spec().item.views.size(); ++v) {
      const ViewPlace& place = table.layout().views()[v];
      const uint32_t shift =
          place.shift_at_client ? table.spec().item.horizon() - drawn.lengths[0] : 0;
      auto& rows = shown[table.spec().item.views[v].name];
      rows.resize(place.rows);
      std::memcpy(rows.data(),
                  reply.data() + table.layout().window(1, place.window) + 4 * (place.first - shift),
                  4 * place.rows);
    }
    return shown;
  }

  Table table;
  Lease lease;
  uint64_t next = 0;
  AppendResult result;
  DrawnBatch drawn;
};

using Rows = std::vector<uint32_t>;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "an item waits for its window, then shows it") {
  CHECK(append({kFirst, 0, 0}, {1}) == Status::ok);
  CHECK(result.items_created == 1);
  CHECK(metric("pending_items") == 1);
  CHECK(table.live_items() == 0);
  CHECK(table.may_sample(1) == Wait::min_size);
  CHECK(append({0, 0}) == Status::ok);
  CHECK(metric("pending_items") == 0);
  auto shown = only();
  CHECK(shown["obs"] == Rows{100, 100, 101});  // padded before FIRST
  CHECK(shown["next"] == Rows{104});
  CHECK(shown["reward"] == Rows{102, 103, 104});
  CHECK(drawn.lengths[0] == 3);
}

TEST_CASE_FIXTURE(Fixture, "LAST completes every item of its episode, at its true length") {
  CHECK(append({kFirst, 0, 0, kLast}, {2}) == Status::ok);
  auto shown = only();
  CHECK(shown["obs"] == Rows{100, 101, 102});
  CHECK(shown["next"] == Rows{103});
  CHECK(shown["reward"] == Rows{103, 0, 0});
  CHECK(drawn.lengths[0] == 1);
  CHECK(table.env_steps() == 3);
}

TEST_CASE_FIXTURE(Fixture, "an episode of one step is an item") {
  CHECK(append({kFirst, kLast, kFirst}, {0, 1}) == Status::ok);
  CHECK(result.items_created == 1);
  CHECK(result.items_refused == 1);  // LAST anchors nothing where items stop at it
  auto shown = only();
  CHECK(shown["obs"] == Rows{100, 100, 100});
  CHECK(shown["next"] == Rows{101});
  CHECK(shown["reward"] == Rows{101, 0, 0});
}

TEST_CASE_FIXTURE(Fixture, "a stream goes on from another holder") {
  CHECK(append({kFirst, 0, 0}, {0}) == Status::ok);
  table.streams().orphan(1, 5);
  lease = table.streams().resume(lease.ordinal, lease.token, 2);
  CHECK(lease.next_step == 3);
  CHECK(append({0}) == Status::ok);
  CHECK(only()["reward"] == Rows{101, 102, 103});
}

TEST_CASE_FIXTURE(Fixture, "a broken stream retires what waits, and starts with FIRST") {
  CHECK(append({kFirst, 0, 0, 0}, {0, 1, 2}) == Status::ok);
  CHECK(table.live_items() == 1);
  CHECK(metric("pending_items") == 2);
  table.streams().release(lease.ordinal, lease.epoch, lease.token);
  CHECK(metric("pending_items") == 0);
  CHECK(metric("items_retired") == 2);
  CHECK(table.live_items() == 1);
  lease = table.streams().lease(1, 0);
  next = 0;
  CHECK(append({0}) == Status::bad_request);
  next = 0;
  CHECK(append({kFirst}) == Status::ok);
  CHECK(table.consistent());
}

TEST_CASE_FIXTURE(Fixture, "what is wrong in one place applies nothing anywhere") {
  CHECK(append({kFirst, 0, 0, 0}) == Status::ok);
  const auto refused = [&](Status status, auto&& spoil) {
    Request request(table.spec());
    request.segment(lease, 4);
    request.row(0, bytes(104));
    request.item(lease, 0, 1);
    spoil(request);
    CHECK(request.send(table, result) == status);
    CHECK(table.rows() == 4);
    CHECK(table.live_items() == 0);
    CHECK(table.consistent());
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float priority : {nan, infinity, -1.0f}) {
    refused(Status::bad_priority, [&](Request& request) { request.item(lease, 1, priority); });
  }
  refused(Status::bad_request, [&](Request& request) { request.row(8, bytes(1)); });
  refused(Status::bad_request, [&](Request& request) {
    request.row(kLast, bytes(1));
    request.row(0, bytes(1));  // after LAST, not FIRST
  });
  refused(Status::bad_request, [&](Request& request) { request.item(lease, 1, 1, 2); });
  refused(Status::bad_request, [&](Request& request) { request.segments_[0].rows = 2; });
  refused(Status::bad_request, [&](Request& request) { request.segments_[0].rows = 0; });
  refused(Status::unknown_lease, [&](Request& request) { request.segments_[0].token ^= 1; });
  refused(Status::unknown_lease, [&](Request& request) { request.items_[0].epoch += 1; });
  refused(Status::unknown_lease, [&](Request& request) { request.items_[0].ordinal = 9; });
  refused(Status::stream_gap, [&](Request& request) { request.segments_[0].first_step = 5; });
  CHECK(result.expected_step == 4);
  refused(Status::stream_gap,
          [&](Request& request) { request.segments_[0].first_step = ~uint64_t{0}; });
  // NaN other than kUseMaximum is not a priority.
  Request request(table.spec());
  request.item(lease, 0, nan, kUseMaximum);
  CHECK(request.send(table, result) == Status::ok);
  CHECK(table.live_items() == 1);
}

TEST_CASE("None is the running maximum of raw priorities, 1 at first") {
  TableSpec spec = dqn_spec();
  spec.sampler.priority_exponent = 1;
  Fixture fixture(spec);
  Table& table = fixture.table;
  const auto add = [&](uint64_t step, float priority, uint32_t flags) {
    Request request(spec);
    request.item(fixture.lease, step, priority, flags);
    REQUIRE(request.send(table) == Status::ok);
  };
  fixture.append(std::vector<uint8_t>{kFirst, 0, 0, 0, 0, 0, 0, 0});
  add(0, 0, kUseMaximum);
  DrawnBatch drawn;
  table.draw(1, drawn);
  CHECK(drawn.header.priority_mass == 1);
  add(1, 5, 0);
  add(2, 0, kUseMaximum);
  uint64_t applied = 0, stale = 0;
  CHECK(table.update_priorities(drawn.keys, std::vector<float>{7}, applied, stale) == Status::ok);
  CHECK(applied == 1);
  add(3, 0, kUseMaximum);
  table.draw(1, drawn);
  CHECK(drawn.header.priority_mass == 7 + 5 + 5 + 7);
  CHECK(drawn.header.item_count == 4);
  CHECK(drawn.header.items_drawn == 2);
  CHECK(drawn.header.items_created == 4);
  CHECK(drawn.header.head == 8);
  CHECK(table.update_priorities(drawn.keys, std::vector<float>{-1}, applied, stale) ==
        Status::bad_priority);
  CHECK(table.update_priorities(drawn.keys, {}, applied, stale) == Status::bad_request);
}

TEST_CASE("a million Atari steps take at most 7.4 GB, every index included") {
  TableSpec spec;
  spec.capacity = 1'000'000;
  spec.columns = {{"obs", DataType::u8, {84, 84}},
                  {"action", DataType::i32, {}},
                  {"reward", DataType::f32, {}},
                  {"discount", DataType::f32, {}}};
  CHECK(Table::memory_bytes(spec) <= 7'400'000'000);
}

TEST_CASE_FIXTURE(Fixture, "what was drawn can be pulled while the reserve lasts, then expires") {
  std::vector<uint8_t> flags(4);
  flags[0] = kFirst;
  CHECK(append(flags, {0}) == Status::ok);
  const auto first = only();
  const DrawnBatch kept = drawn;
  std::vector<std::byte> before(table.layout().total_bytes(1)), after(before.size());
  REQUIRE(table.gather(kept, 0, before));
  const uint64_t slots = ring_slots(table.spec());
  CHECK(append(std::vector<uint8_t>(slots - 4)) == Status::ok);  // evicted, not overwritten
  CHECK(table.live_items() == 0);
  REQUIRE(table.gather(kept, 0, after));
  CHECK(before == after);
  uint64_t applied = 0, stale = 0;
  CHECK(table.update_priorities(kept.keys, std::vector<float>{9}, applied, stale) == Status::ok);
  CHECK(stale == 1);
  CHECK(append({0}) == Status::ok);
  CHECK_FALSE(table.gather(kept, 0, after));
  CHECK(table.gather(kept, 0, std::span(after).first(64)));  // header and keys need no rows
}

TEST_CASE("long rows are lent where they lie: settled, a reply is the one that is copied") {
  TableSpec spec = dqn_spec();
  spec.columns = {{"x", DataType::u8, {1500}}};
  Table table(spec, 0, 1);
  const Lease lease = table.streams().lease(1, 0);
  Request request(spec);
  request.segment(lease, 0);
  for (uint64_t step = 0; step < 40; ++step) {
    request.row(step == 0 ? kFirst : 0, filled(spec, step));
    if (step < 30) request.item(lease, step, 1);
  }
  REQUIRE(request.send(table) == Status::ok);
  DrawnBatch drawn;
  table.draw(300, drawn);  // keys, too, are long enough
  std::vector<std::byte> copied(table.layout().total_bytes(300)), lent(copied.size());
  REQUIRE(table.gather(drawn, 0, copied));
  size_t loan_count = 0;
  Random random(3);
  for (size_t from = 0; from < lent.size();) {
    const size_t bytes = std::min<size_t>(1 + random.below(9000), lent.size() - from);
    Loans loans;
    REQUIRE(table.gather(drawn, from, std::span(lent).subspan(from, bytes), &loans));
    loan_count += loans.all().size();
    loans.copy_out();
    from += bytes;
  }
  CHECK(lent == copied);
  CHECK(loan_count > 300);
}

TEST_CASE("the same seed draws the same batches") {
  std::vector<uint64_t> keys[2];
  for (auto& of : keys) {
    Fixture fixture;
    std::vector<uint8_t> flags(50);
    flags[0] = kFirst;
    std::vector<uint64_t> items;
    for (uint64_t step = 0; step < 47; ++step) items.push_back(step);
    REQUIRE(fixture.append(flags, items) == Status::ok);
    for (int i = 0; i < 20; ++i) {
      fixture.table.draw(32, fixture.drawn);
      of.insert(of.end(), fixture.drawn.keys.begin(), fixture.drawn.keys.end());
    }
  }
  CHECK(keys[0] == keys[1]);
}

TEST_CASE("a lease too many for the capacity is refused") {
  TableSpec spec = dqn_spec();
  spec.capacity = 3 * 2 * spec.item.window();
  Table table(spec, 0, 1);
  for (int i = 0; i < 3; ++i) table.streams().lease(1, 0);
  CHECK_THROWS_AS(table.streams().lease(1, 0), Error);
}

}  // namespace drlnet::test
