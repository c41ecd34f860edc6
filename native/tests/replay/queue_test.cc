// Tables whose items retire after a number of draws: nothing twice, nothing lost, nothing silent.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "replay/request.h"

namespace drlnet::test {
namespace {

constexpr uint32_t kUnroll = 4;

// Unrolls of 4 steps and the row behind them, over episode boundaries.
TableSpec queue_spec(const char* sampler = "fifo", uint32_t most = 1) {
  TableSpec spec;
  spec.name = "unrolls";
  spec.capacity = 64;
  spec.columns = {{"x", DataType::u32, {}}};
  spec.item.views = {{"x", 0, 0, kUnroll, Pad::repeat, Align::anchor}};
  spec.item.boundary = Boundary::cross;
  spec.item.period = kUnroll;
  spec.sampler.name = sampler;
  spec.limiter.max_times_sampled = most;
  return spec;
}

struct Queue {
  explicit Queue(const TableSpec& spec)
      : table(spec, 0, 1), lease(table.streams().lease(1, 0)), next(0) {}

  // Rows of episodes of 7 steps, anchored at each; true when the limiter lets them in.
  bool append(uint64_t rows) {
    Request request(table.spec());
    request.segment(lease, next);
    for (uint64_t step = next; step < next + rows; ++step) {
      const auto flags =
          static_cast<uint8_t>((step % 7 == 0 ? kFirst : 0) | (step % 7 == 6 ? kLast : 0));
      std::vector<std::byte> row(4);
      const auto value = static_cast<uint32_t>(step);
      std::memcpy(row.data(), &value, 4);
      request.row(flags, row);
      request.item(lease, step, 1);
    }
    std::vector<std::span<const std::byte>> columns(request.columns());
    const Append append{request.segments_, request.flags_, columns, request.items_};
    if (!table.may_insert(append)) return false;
    REQUIRE(table.append(append, result) == Status::ok);
    next += rows;
    REQUIRE(table.consistent());
    return true;
  }
  // The first steps of the unrolls drawn.
  std::vector<uint64_t> draw(uint32_t batch) {
    REQUIRE(table.may_sample(batch) == Wait::none);
    DrawnBatch drawn;
    table.draw(batch, drawn);
    REQUIRE(table.consistent());
    std::vector<uint64_t> steps;
    for (const uint64_t key : drawn.keys) steps.push_back(key & 0xFF);
    return steps;
  }

  Table table;
  Lease lease;
  uint64_t next;
  AppendResult result;
};

// Streams of different speeds, some of which pause for long, and a reader that wants whole batches.
class Crowd {
 public:
  explicit Crowd(uint64_t seed)
      : random_(seed), spec_(spec_of(random_)), table_(spec_, 0, 1), batch_(spec_.limiter.batch) {
    for (uint32_t i = 0; i < kStreams; ++i) streams_.push_back({table_.streams().lease(1, 0)});
    for (Writer& stream : streams_) stream.speed = 1 + random_.below(20);
  }

  void play(int turns) {
    for (int turn = 0; turn < turns; ++turn) {
      if (random_.below(30) == 0) streams_[random_.below(kStreams)].speed = random_.below(20);
      if (random_.below(3) == 0 && table_.may_sample(batch_) == Wait::none) draw(batch_);
      uint32_t refused = 0;
      for (Writer& stream : streams_) {
        if (random_.below(20) < stream.speed) refused += !append(stream);
      }
      if (refused > 0 && table_.may_sample(batch_) == Wait::none) draw(batch_);
      REQUIRE(table_.consistent());
    }
  }
  // All go on together: each in its turn gets through, by what the reader takes in whole batches.
  void finish() {
    for (int turn = 0; turn < 10; ++turn) {
      for (Writer& stream : streams_) {
        while (!append(stream)) {
          REQUIRE(table_.may_sample(batch_) == Wait::none);  // or both would wait
          draw(batch_);
        }
      }
    }
    while (table_.live_items() > 0) draw(1);
    uint64_t expected = 0;
    for (const Writer& stream : streams_) expected += stream.complete(spec_);
    CHECK(metric("t.items_retired") == expected);
    CHECK(drawn_.size() == expected);
    for (const auto& [_, times] : drawn_) CHECK(times == spec_.limiter.max_times_sampled);
  }
  uint64_t metric(const char* name) const {
    Metrics metrics;
    table_.read_metrics("t.", metrics, 0);
    for (const auto& [key, value] : metrics.list()) {
      if (key == name) return std::get<uint64_t>(value);
    }
    return 0;
  }

 private:
  static constexpr uint32_t kStreams = 6;
  static constexpr uint64_t kMostRows = 12;

  struct Writer {
    Lease lease;
    uint64_t speed = 0;
    std::vector<uint8_t> flags{};    // of the rows so far
    std::optional<uint64_t> late{};  // the step whose item comes with the next append

    // Items that have all their rows.
    uint64_t complete(const TableSpec& spec) const {
      uint64_t count = 0, since_first = 0;
      const bool stops = spec.item.boundary == Boundary::stop;
      for (uint64_t step = 0; step < flags.size(); ++step) {
        since_first = (flags[step] & kFirst) != 0 ? 0 : since_first + 1;
        if ((stops ? since_first : step) % spec.item.period != 0) continue;
        uint64_t last = step + spec.item.horizon();
        for (uint64_t at = step; stops && at < std::min<uint64_t>(last, flags.size()); ++at) {
          if ((flags[at] & kLast) != 0) last = at;
        }
        const bool none = stops && (flags[step] & kLast) != 0;
        count += !none && last < flags.size() && !(late && *late <= step);
      }
      return count;
    }
  };

  static TableSpec spec_of(Random& random) {
    TableSpec spec = queue_spec();
    spec.columns.push_back({"image", DataType::u8, {100}});
    const auto back = static_cast<int32_t>(random.below(3));
    const auto horizon = static_cast<int32_t>(random.below(5));
    spec.item.views = {{"x", 0, -back, horizon, Pad::repeat, Align::anchor},
                       {"image", 1, 0, 0, Pad::repeat, Align::anchor}};
    spec.item.boundary = random.below(2) == 0 ? Boundary::cross : Boundary::stop;
    spec.item.period = 1 + static_cast<uint32_t>(random.below(5));
    if (random.below(2) == 0) spec.sampler.name = sampler_kinds()[random.below(7)].name;
    spec.limiter.max_times_sampled = 1 + static_cast<uint32_t>(random.below(2));
    spec.limiter.batch = 1 + static_cast<uint32_t>(random.below(8));
    const uint64_t window = spec.item.window();
    spec.capacity = std::max(2 * spec.limiter.batch * window,
                             (spec.limiter.batch + kStreams) * window + kMostRows) +
                    kStreams * window + random.below(20);
    return spec;
  }

  // Rows and their items, but for the newest row's, which comes with the next append.
  bool append(Writer& stream) {
    Request request(spec_);
    std::vector<uint8_t> flags = stream.flags;
    request.segment(stream.lease, flags.size());
    if (stream.late) request.item(stream.lease, *stream.late, 1);
    const uint64_t rows = 1 + random_.below(kMostRows);
    for (uint64_t i = 0; i < rows; ++i) {
      const bool first = flags.empty() || (flags.back() & kLast) != 0;
      flags.push_back(first ? kFirst : random_.below(9) == 0 ? kLast : 0);
      const auto value = static_cast<uint32_t>(stream.lease.ordinal * 1'000'000 + flags.size() - 1);
      std::vector<std::byte> row(104, static_cast<std::byte>(value));
      std::memcpy(row.data(), &value, 4);
      request.row(flags.back(), row);
      if (i + 1 < rows) request.item(stream.lease, flags.size() - 1, 1);
    }
    auto columns = request.columns();
    const Append append{request.segments_, request.flags_, columns, request.items_};
    if (!table_.may_insert(append)) return false;
    AppendResult result;
    REQUIRE(table_.append(append, result) == Status::ok);
    stream.flags = std::move(flags);
    stream.late = stream.flags.size() - 1;
    return true;
  }

  void draw(uint32_t batch) {
    REQUIRE(table_.may_sample(batch) == Wait::none);
    DrawnBatch drawn;
    table_.draw(batch, drawn);
    const SampleLayout& layout = table_.layout();
    std::vector<std::byte> reply(layout.total_bytes(batch));
    REQUIRE(table_.gather(drawn, 0, reply));
    const Window& shown = layout.windows()[layout.views()[0].window];
    for (uint32_t i = 0; i < batch; ++i) {
      uint32_t anchor, value;
      std::byte image;
      const uint64_t at = layout.window(batch, layout.views()[0].window) + i * shown.item_bytes();
      const uint32_t back = spec_.item.back();
      std::memcpy(&anchor, reply.data() + at + back * 4, 4);
      std::memcpy(&image,
                  reply.data() + layout.window(batch, layout.views()[1].window) + i * 100 + 99, 1);
      CHECK(image == static_cast<std::byte>(anchor));
      for (uint32_t step = 0; step <= back + spec_.item.horizon(); ++step) {
        std::memcpy(&value, reply.data() + at + step * 4, 4);
        if (step >= back && step - back <= drawn.lengths[i]) CHECK(value == anchor + step - back);
      }
      ++drawn_[anchor];
    }
  }

  Random random_;
  TableSpec spec_;
  Table table_;
  uint32_t batch_;
  std::vector<Writer> streams_;
  std::map<uint32_t, uint32_t> drawn_;  // how often, by what the anchor's row is
};

}  // namespace

TEST_CASE("unrolls neither overlap nor leave gaps, over episodes' ends") {
  Queue queue(queue_spec());
  REQUIRE(queue.append(41));
  CHECK(queue.result.items_created == 11);  // at 0, 4, ..., 40, LAST rows among them
  CHECK(queue.result.items_refused == 30);
  CHECK(queue.draw(10) == std::vector<uint64_t>{0, 4, 8, 12, 16, 20, 24, 28, 32, 36});
  CHECK(queue.table.may_sample(1) == Wait::min_size);  // the one at 40 waits for its rows
}

TEST_CASE("every sampler draws each item as often as it may be drawn, and no more") {
  for (const SamplerKind& kind : sampler_kinds()) {
    for (const uint32_t most : {1u, 2u, 5u}) {
      INFO(kind.name, " ", most);
      Queue queue(queue_spec(std::string(kind.name).c_str(), most));
      REQUIRE(queue.append(41));
      std::map<uint64_t, uint32_t> times;
      CHECK(queue.table.may_sample(10 * most + 1) == Wait::samples_limit);
      for (const uint64_t step : queue.draw(3)) ++times[step];
      for (const uint64_t step : queue.draw(10 * most - 3)) ++times[step];
      CHECK(times.size() == 10);
      CHECK(std::ranges::all_of(times, [&](const auto& one) { return one.second == most; }));
      CHECK(queue.table.live_items() == 0);
      CHECK(queue.table.may_sample(1) == Wait::min_size);
    }
  }
}

TEST_CASE("an append waits while it would overwrite what was not drawn") {
  Queue queue(queue_spec());
  REQUIRE(queue.append(64));
  CHECK_FALSE(queue.append(1));  // the unroll at 0
  queue.draw(1);
  REQUIRE(queue.append(4));
  CHECK_FALSE(queue.append(1));
  CHECK(queue.draw(2) == std::vector<uint64_t>{4, 8});
  REQUIRE(queue.append(8));
  CHECK(queue.result.rows_stored == 8);
}

TEST_CASE("rows that are stored already overwrite nothing") {
  Queue queue(queue_spec());
  REQUIRE(queue.append(64));
  queue.next = 60;
  REQUIRE(queue.append(4));  // sent again
  CHECK(queue.result.rows_ignored == 4);
  CHECK(queue.result.items_ignored == 1);
}

TEST_CASE("nothing is lost where streams differ in speed, and writers and the reader go on") {
  uint64_t moved = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed ", seed);
    Crowd crowd(seed);
    crowd.play(400);
    crowd.finish();
    moved += crowd.metric("t.rows_moved");
  }
  CHECK(moved > 5000);
}

TEST_CASE("a vector of streams and its reader go on in a ring of two unrolls each") {
  constexpr uint32_t kSteps = 20, kStreams = 64, kFlush = 4, kUnrolls = 30;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed ", seed);
    Random random(seed);
    const uint32_t batch = 1 + static_cast<uint32_t>(random.below(kStreams));
    const uint32_t part = 1 + static_cast<uint32_t>(random.below(kStreams));  // of an append
    TableSpec spec = queue_spec();
    spec.item.views[0].hi = spec.item.period = kSteps;
    const uint64_t window = spec.item.window();
    spec.capacity = std::max(2 * kStreams * window, (kStreams + batch) * window + part * kFlush);
    spec.limiter.batch = batch;
    Table table(spec, 0, 1);
    std::vector<Lease> leases;
    for (uint32_t i = 0; i < kStreams; ++i) leases.push_back(table.streams().lease(1, 0));
    const uint64_t hurry = random.below(4);
    uint64_t drawn_items = 0;
    const auto draw = [&](uint32_t count) {
      if (table.may_sample(count) != Wait::none) return false;
      DrawnBatch drawn;
      table.draw(count, drawn);
      drawn_items += count;
      return true;
    };
    for (uint64_t step = 0; step < kUnrolls * kSteps; step += kFlush) {
      for (uint32_t first = 0; first < kStreams; first += part) {
        Request request(spec);
        for (uint32_t i = first; i < std::min(first + part, kStreams); ++i) {
          request.segment(leases[i], step);
          for (uint32_t row = 0; row < kFlush; ++row) {
            request.row(step + row == 0 ? kFirst : 0, std::vector<std::byte>(4));
          }
          if (step % kSteps == 0) request.item(leases[i], step, 1);
        }
        auto columns = request.columns();
        const Append append{request.segments_, request.flags_, columns, request.items_};
        while (!table.may_insert(append)) REQUIRE(draw(batch));  // or both would wait
        AppendResult result;
        REQUIRE(table.append(append, result) == Status::ok);
        if (random.below(4) < hurry) draw(batch);
      }
    }
    while (table.live_items() > 0) REQUIRE(draw(1));
    CHECK(drawn_items == kStreams * (kUnrolls - 1));  // the last ones miss their last row
  }
}

TEST_CASE("an actor that is gone holds no other up, and may come back") {
  Queue queue(queue_spec());
  const Lease dead = queue.table.streams().lease(2, 0);
  Request request(queue.table.spec());
  request.segment(dead, 0);
  std::vector<std::byte> row(4, std::byte{0xFF});
  request.row(kFirst, row);
  request.item(dead, 0, 1);
  REQUIRE(request.send(queue.table) == Status::ok);
  for (int i = 0; i < 100; ++i) {  // 13 times round
    REQUIRE(queue.append(8));
    queue.draw(static_cast<uint32_t>(queue.table.live_items()));
  }
  CHECK(queue.table.rows() == 64);
  Request rest(queue.table.spec());  // it was not gone, after all
  rest.segment(dead, 1);
  for (int i = 0; i < 4; ++i) rest.row(0, row);
  REQUIRE(rest.send(queue.table) == Status::ok);
  CHECK(queue.table.live_items() == 1);
}

TEST_CASE("queues that can deadlock are refused") {
  TableSpec spec = queue_spec();
  spec.limiter.batch = 8;
  spec.limiter.prefetch = 1;
  CHECK_THROWS_WITH_AS(check(spec), doctest::Contains("can not hold 16 items"), Error);
  spec.limiter.max_times_sampled = 2;
  check(spec);
  CHECK_THROWS_WITH_AS(check(spec, 2), doctest::Contains("32 rows in each shard"), Error);
  spec.limiter.samples_per_insert = 3;
  spec.limiter.error_buffer = 100;
  CHECK_THROWS_WITH_AS(check(spec), doctest::Contains("samples_per_insert exceeds"), Error);
}

}  // namespace drlnet::test
