// A table against the oracle, through random specifications and random operations.
#include <doctest/doctest.h>

#include <deque>

#include "replay/oracle.h"
#include "replay/request.h"

namespace drlnet::test {
namespace {

TableSpec random_spec(Random& random) {
  TableSpec spec;
  spec.name = "t";
  spec.columns = {{"a", DataType::u8, {}},
                  {"b", DataType::f32, {}},
                  {"c", DataType::f32, {1 + static_cast<uint32_t>(random.below(20))}},
                  {"d", DataType::u8, {100, 3}}};
  spec.item.boundary = random.below(3) == 0 ? Boundary::cross : Boundary::stop;
  spec.item.period = random.below(3) == 0 ? 1 + static_cast<uint32_t>(random.below(4)) : 1;
  const auto n = static_cast<int32_t>(random.below(6));  // the horizon, if a view reaches it
  const uint64_t views = 1 + random.below(6);
  // The rows of items that reach further are found anew each time they are gathered.
  const uint64_t reach = random.below(4) == 0 ? 24 : 8;
  for (uint64_t i = 0; i < views; ++i) {
    ViewSpec view;
    view.name = "v" + std::to_string(i);
    view.column = static_cast<uint16_t>(random.below(spec.columns.size()));
    view.lo = n - static_cast<int32_t>(random.below(reach));
    view.hi = view.lo + static_cast<int32_t>(random.below(static_cast<uint64_t>(n - view.lo) + 1));
    view.pad = random.below(2) == 0 ? Pad::repeat : Pad::zero;
    view.align = random.below(2) == 0 ? Align::anchor : Align::end;
    spec.item.views.push_back(view);
  }
  spec.capacity = 8 * spec.item.window() + random.below(300);
  spec.sampler.name = sampler_kinds()[random.below(sampler_kinds().size())].name;
  if (random.below(3) == 0) {
    spec.limiter.max_times_sampled = 1 + static_cast<uint32_t>(random.below(3));
  }
  spec.seed = random.bits();
  return spec;
}

class Trial {
 public:
  explicit Trial(uint64_t seed)
      : random_(seed), spec_(random_spec(random_)), table_(spec_, 3, 7), oracle_(spec_) {
    for (int i = 0; i < 3; ++i) lease();
  }

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      switch (random_.below(12)) {
        case 0:
          resend();
          break;
        case 1:
          gap();
          break;
        case 2:
          draw();
          break;
        case 3:
          draw();
          break;
        case 4:
          gather();
          break;
        case 5:
          update();
          break;
        case 6:
          if (random_.below(10) == 0) release();
          break;
        default:
          append();
      }
      if (i % 32 == 0) check_counts();
    }
    check_counts();
  }

 private:
  void lease() { open_.push_back(oracle_.add(table_.streams().lease(1, 0))); }
  const OracleLease& of(size_t open) const { return oracle_.lease(open_[open]); }

  void release() {
    const size_t open = random_.below(open_.size());
    const Lease lease = of(open).lease;
    REQUIRE(table_.streams().release(lease.ordinal, lease.epoch, lease.token));
    CHECK_FALSE(table_.streams().release(lease.ordinal, lease.epoch, lease.token));
    oracle_.end(open_[open]);
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(open));
    Request late(spec_);
    late.segment(lease, lease.next_step);
    late.row(kFirst, filled(spec_, 1));
    CHECK(late.send(table_) == Status::unknown_lease);
    this->lease();
  }

  uint8_t next_flags(const OracleLease& of) {
    const bool closed = of.rows.empty() || (of.rows.back().flags & kLast) != 0;
    uint8_t flags = closed || random_.below(60) == 0 ? kFirst : 0;
    if (flags == 0 && random_.below(8) == 0) flags |= kLast;
    if (flags != 0 && random_.below(30) == 0) flags |= kLast;  // an episode of no step
    return flags;
  }

  void append() {
    Request request(spec_);
    AppendResult expected;
    const uint64_t segments = 1 + random_.below(4);
    for (uint64_t s = 0; s < segments; ++s) {
      const size_t index = open_[random_.below(open_.size())];
      const OracleLease& of = oracle_.lease(index);
      const uint64_t known = std::min<uint64_t>(random_.below(4), of.rows.size());
      request.segment(of.lease, of.rows.size() - known);
      for (uint64_t i = 0; i < known; ++i) {  // ignored, whatever it says now
        request.row(kFirst | kLast, filled(spec_, 0));
      }
      const uint64_t rows = random_.below(random_.below(20) == 0 ? 400 : 9);
      for (uint64_t i = 0; i < rows; ++i) {
        const uint8_t flags = next_flags(of);
        const auto bytes = filled(spec_, ++value_);
        request.row(flags, bytes);
        oracle_.store(index, flags, bytes);
      }
      expected.rows_ignored += static_cast<uint32_t>(known);
      expected.rows_stored += static_cast<uint32_t>(rows);
    }
    const uint64_t items = random_.below(12);
    for (uint64_t i = 0; i < items; ++i) {
      const size_t index = open_[random_.below(open_.size())];
      const OracleLease& of = oracle_.lease(index);
      const uint64_t back = random_.below(random_.below(10) == 0 ? 500 : 12);
      const uint64_t step = of.rows.size() + 2 - std::min<uint64_t>(back, of.rows.size() + 2);
      request.item(of.lease, step, static_cast<float>(random_.below(5)),
                   random_.below(3) == 0 ? kUseMaximum : 0);
      oracle_.add_item(index, step, expected);
    }
    AppendResult result;
    REQUIRE(request.send(table_, result) == Status::ok);
    CHECK(std::memcmp(&result, &expected, sizeof result) == 0);
    latest_ = std::move(request);
  }

  // The same bytes again change nothing.
  void resend() {
    if (!latest_) return;
    for (const AppendSegment& segment : latest_->segments_) {
      if (table_.streams().find(segment.ordinal, segment.epoch) == nullptr) return;
    }
    for (const AppendItem& item : latest_->items_) {
      if (table_.streams().find(item.ordinal, item.epoch) == nullptr) return;
    }
    Request again = *latest_;
    again.items_.erase(std::remove_if(again.items_.begin(), again.items_.end(),
                                      [&](const AppendItem& item) { return fresh(item); }),
                       again.items_.end());
    AppendResult result;
    REQUIRE(again.send(table_, result) == Status::ok);
    CHECK(result.rows_stored == 0);
    CHECK(result.items_created == 0);
  }
  // An item that was ahead of its rows may be created by now: no longer the same request.
  bool fresh(const AppendItem& item) const {
    for (const size_t index : open_) {
      const OracleLease& of = oracle_.lease(index);
      if (of.lease.ordinal != item.ordinal || item.step >= of.rows.size()) continue;
      return !of.rows[item.step].item;
    }
    return true;
  }

  void gap() {
    Request request(spec_);
    const OracleLease& with = of(0);
    const OracleLease& without = of(1);
    request.segment(with.lease, with.rows.size());
    request.row(kFirst, filled(spec_, 1));
    request.segment(without.lease, without.rows.size() + 1);
    request.row(kFirst, filled(spec_, 1));
    request.item(with.lease, with.rows.size(), 1);
    AppendResult result;
    CHECK(request.send(table_, result) == Status::stream_gap);
    CHECK(result.expected_step == without.rows.size());
    CHECK(result.ordinal == without.lease.ordinal);
    CHECK(result.rows_stored == 0);
  }

  void draw() {
    const uint64_t n = 1 + random_.below(40);
    if (table_.may_sample(n) != Wait::none) {
      CHECK((table_.live_items() == 0 || (table_.is_queue() && oracle_.draws_left() < n)));
      return;
    }
    DrawnBatch drawn;
    table_.draw(static_cast<uint32_t>(n), drawn);
    CHECK(drawn.header.head == oracle_.head());
    for (size_t i = 0; i < n; ++i) {
      const uint64_t number = drawn.keys[i] & ((uint64_t{1} << kKeyNumberBits) - 1);
      CHECK((drawn.keys[i] >> kKeyNumberBits) == (3u << 16 | 7u));
      const auto [lease, step] = oracle_.find(number);
      REQUIRE(oracle_.standing(lease, step) == Standing::live);
      oracle_.draw(lease, step);
      CHECK(drawn.lengths[i] == *oracle_.length(oracle_.lease(lease), step));
    }
    drawn_.push_back(std::move(drawn));
    if (drawn_.size() > 6) drawn_.pop_front();
    gather();
  }

  // The whole reply, pulled in pieces of random sizes, looked at as a client does.
  void gather() {
    if (drawn_.empty()) return;
    const DrawnBatch& drawn = drawn_[random_.below(drawn_.size())];
    const SampleLayout& layout = table_.layout();
    const size_t n = drawn.keys.size();
    std::vector<std::byte> reply(layout.total_bytes(n), std::byte{0xEE});
    bool gathered = true;
    for (size_t from = 0; from < reply.size() && gathered;) {
      const size_t bytes = std::min<size_t>(1 + random_.below(random_.below(2) == 0 ? 50 : 9000),
                                            reply.size() - from);
      gathered = table_.gather(drawn, from, std::span(reply).subspan(from, bytes));
      from += bytes;
    }
    bool must_succeed = true, may_succeed = true;
    for (size_t i = 0; i < n; ++i) {
      const auto [lease, step] =
          oracle_.find(drawn.keys[i] & ((uint64_t{1} << kKeyNumberBits) - 1));
      const OracleLease& of = oracle_.lease(lease);
      must_succeed = must_succeed && oracle_.stored(oracle_.reach(of, step));
      uint64_t lowest = of.rows[step].number;
      for (size_t v = 0; v < spec_.item.views.size(); ++v) {
        const auto shown = oracle_.view(of, step, spec_.item.views[v], lowest);
        if (!gathered) continue;
        const ViewPlace& place = layout.views()[v];
        const Window& window = layout.windows()[place.window];
        const uint32_t first =
            place.first - (place.shift_at_client ? spec_.item.horizon() - drawn.lengths[i] : 0);
        const uint64_t offset =
            layout.window(n, place.window) + i * window.item_bytes() + first * window.row_bytes;
        REQUIRE(std::memcmp(reply.data() + offset, shown.data(), shown.size()) == 0);
      }
      may_succeed = may_succeed && oracle_.stored(lowest);
    }
    if (must_succeed) CHECK(gathered);
    if (!may_succeed) CHECK_FALSE(gathered);
    (gathered ? gathers_ : expired_) += 1;
    if (!gathered) return;
    CHECK(std::memcmp(reply.data(), &drawn.header, sizeof drawn.header) == 0);
    CHECK(std::memcmp(reply.data() + layout.keys(n), drawn.keys.data(), 8 * n) == 0);
    CHECK(std::memcmp(reply.data() + layout.lengths(n), drawn.lengths.data(), 4 * n) == 0);
    for (uint64_t at = layout.lengths(n) + 4 * n; at < layout.window(n, 0); ++at) {
      CHECK(reply[at] == std::byte{0});
    }
  }

  // Priorities for whatever was drawn at some time: only live items take them.
  void update() {
    if (drawn_.empty()) return;
    std::vector<uint64_t> keys = drawn_[random_.below(drawn_.size())].keys;
    uint64_t live = 0;
    for (const uint64_t key : keys) {
      const uint64_t number = key & ((uint64_t{1} << kKeyNumberBits) - 1);
      const auto [lease, step] = oracle_.find(number);
      live += oracle_.standing(lease, step) == Standing::live;
    }
    for (const uint64_t foreign : {uint64_t{1} << 56, uint64_t{1} << 40, uint64_t{1} << 20}) {
      // Often none: where all keys are live, their slots are found in another way.
      if (random_.below(4) == 0) keys.push_back(keys[0] + foreign);
      if (random_.below(4) == 0) keys.push_back(keys[0] - foreign);
    }
    std::vector<float> priorities(keys.size());
    for (float& priority : priorities) priority = static_cast<float>(random_.uniform());
    uint64_t applied = 0, stale = 0;
    CHECK(table_.update_priorities(keys, priorities, applied, stale) == Status::ok);
    CHECK(applied == live);
    CHECK(stale == keys.size() - live);
  }

  void check_counts() {
    REQUIRE(table_.consistent());
    auto counts = oracle_.standings();
    REQUIRE(table_.live_items() == counts[Standing::live]);
    Metrics metrics;
    table_.read_metrics("t.", metrics, 0);
    for (const auto& [name, value] : metrics.list()) {
      if (name == "t.pending_items") CHECK(std::get<uint64_t>(value) == counts[Standing::pending]);
    }
    CHECK(table_.rows() == std::min(oracle_.head(), spec_.capacity));
  }

  Random random_;
  TableSpec spec_;
  Table table_;
  Oracle oracle_;
  std::vector<size_t> open_;  // leases, as the oracle counts them
  std::optional<Request> latest_;
  std::deque<DrawnBatch> drawn_;
  uint64_t value_ = 0;

 public:
  uint64_t gathers_ = 0, expired_ = 0;
};

}  // namespace

TEST_CASE("random operations agree with the oracle") {
  uint64_t gathers = 0, expired = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed ", seed);
    Trial trial(seed);
    trial.run(600);
    gathers += trial.gathers_;
    expired += trial.expired_;
  }
  // The operations were such that both ends were met often.
  CHECK(gathers > 5000);
  CHECK(expired > 500);
}

}  // namespace drlnet::test
