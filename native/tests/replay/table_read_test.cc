// Items by their keys, and which of them changed: for a client with a sampler of its own.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <set>

#include "replay/request.h"

namespace drlnet::test {
namespace {

TableSpec spec_of(uint64_t capacity = 64) {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = capacity;
  spec.columns = {{"x", DataType::u32, {}}};
  spec.item.views = {{"obs", 0, -2, 0, Pad::repeat, Align::anchor},
                     {"next", 0, 1, 1, Pad::repeat, Align::end}};
  spec.sampler.priority_exponent = 1;
  return spec;
}

// One stream; every row holds its step and has an item but episodes' last ones.
struct Fixture {
  explicit Fixture(TableSpec spec = spec_of(), uint16_t epoch = 1)
      : table(std::move(spec), 0, epoch), lease(table.streams().lease(1, 0)) {}

  void append(uint64_t rows, float priority = 1) {
    Request request(table.spec());
    request.segment(lease, next);
    for (uint64_t i = 0; i < rows; ++i, ++next) {
      const bool last = next % kEpisode == kEpisode - 1;
      const auto value = static_cast<uint32_t>(next);
      std::vector<std::byte> row(4);
      std::memcpy(row.data(), &value, 4);
      request.row(static_cast<uint8_t>((next % kEpisode == 0 ? kFirst : 0) | (last ? kLast : 0)),
                  row);
      if (!last) request.item(lease, next, priority);
    }
    REQUIRE(request.send(table) == Status::ok);
  }
  std::vector<std::byte> bytes_of(const DrawnBatch& items) const {
    std::vector<std::byte> reply(table.layout().total_bytes(items.keys.size()));
    REQUIRE(table.gather(items, 0, reply));
    return reply;
  }

  static constexpr uint64_t kEpisode = 10;
  Table table;
  Lease lease;
  uint64_t next = 0;
};

// What a client knows that asks for all changes, `most` at a time.
struct Follower {
  std::map<uint64_t, float> items;
  uint64_t next = 0;

  void ask(Table& table, uint32_t most) {
    while (page(table, most)) {
    }
  }
  // True: there is more.
  bool page(Table& table, uint32_t most) {
    std::vector<uint64_t> keys;
    std::vector<float> priorities;
    const ChangesHeader header = table.changes(next, most, keys, priorities);
    REQUIRE(keys.size() == header.count);
    REQUIRE(header.count <= most);
    next = header.next;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (priorities[i] == 0) {
        items.erase(keys[i]);
      } else {
        items[keys[i]] = priorities[i];
      }
    }
    items.erase(items.begin(), items.lower_bound(header.oldest));
    return header.more != 0;
  }
};

}  // namespace

TEST_CASE("items that are read are what a draw of them gave, in the order of their keys") {
  Fixture f;
  f.append(40, 0.5f);
  DrawnBatch drawn, found;
  f.table.draw(50, drawn);
  const std::vector<std::byte> sampled = f.bytes_of(drawn);
  f.table.look_up(drawn.keys, found);
  const std::vector<std::byte> read = f.bytes_of(found);
  CHECK(found.keys == drawn.keys);
  CHECK(found.lengths == drawn.lengths);
  CHECK(found.probabilities == std::vector<float>(50, 0.5f));
  CHECK(found.header.items_drawn == drawn.header.items_drawn);  // a read does not count as a draw
  const size_t rows = f.table.layout().window(50, 0);
  CHECK(std::equal(sampled.begin() + static_cast<ptrdiff_t>(rows), sampled.end(),
                   read.begin() + static_cast<ptrdiff_t>(rows)));
}

TEST_CASE("what is not held is marked, its rows zeros; what vanishes later expires") {
  Fixture f;
  f.append(64);
  DrawnBatch drawn, found;
  f.table.draw(1, drawn);
  const uint64_t base = drawn.keys[0] >> kKeyNumberBits << kKeyNumberBits;
  // Never was, a final row, a foreign epoch, and one that is there.
  const std::vector<uint64_t> keys = {base + 500, base + 9, 77, base + 20, kNoKey};
  f.table.look_up(keys, found);
  CHECK(found.keys == std::vector<uint64_t>{kNoKey, kNoKey, kNoKey, base + 20, kNoKey});
  CHECK(found.probabilities == std::vector<float>{0, 0, 0, 1, 0});
  const std::vector<std::byte> reply = f.bytes_of(found);
  const SampleLayout& layout = f.table.layout();
  for (const size_t item : {0, 1, 2, 4}) {
    const auto* bytes =
        reply.data() + layout.window(5, 0) + item * layout.windows()[0].item_bytes();
    CHECK(std::all_of(bytes, bytes + layout.windows()[0].item_bytes(),
                      [](std::byte b) { return b == std::byte{0}; }));
  }
  uint64_t applied = 0, stale = 0;
  const std::vector<float> priorities(5, 2.0f);
  CHECK(f.table.update_priorities(found.keys, priorities, applied, stale) == Status::ok);
  CHECK(applied == 1);
  CHECK(stale == 4);
  for (int i = 0; i < 50; ++i) f.append(64);  // beyond the ring and its reserve
  std::vector<std::byte> late(layout.total_bytes(5));
  CHECK_FALSE(f.table.gather(found, 0, late));
}

TEST_CASE("a client that follows the changes knows every live item and its stored priority") {
  for (const uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    Random random(seed);
    Fixture f;
    Follower often, seldom;
    f.append(1 + random.below(30));  // before anybody asked
    for (int round = 0; round < 300; ++round) {
      if (random.below(2) == 0) f.append(1 + random.below(20), static_cast<float>(1 + round));
      if (f.table.live_items() > 0) {
        DrawnBatch drawn;
        f.table.draw(8, drawn);
        std::vector<float> priorities(8);
        for (float& p : priorities) p = static_cast<float>(1 + random.below(100));
        uint64_t applied = 0, stale = 0;
        f.table.update_priorities(drawn.keys, priorities, applied, stale);
      }
      often.ask(f.table, 1 + static_cast<uint32_t>(random.below(5)));
      if (round % 50 == 49) seldom.ask(f.table, 1000);
    }
    CHECK(often.items == seldom.items);
    CHECK(often.items.size() == f.table.live_items());
    double mass = 0;
    std::vector<uint64_t> keys;
    for (const auto& [key, priority] : often.items) {
      mass += static_cast<double>(priority);
      keys.push_back(key);
    }
    DrawnBatch found;
    f.table.look_up(keys, found);
    CHECK(found.keys == keys);
    for (size_t i = 0; i < keys.size(); ++i) CHECK(found.probabilities[i] == often.items[keys[i]]);
    CHECK(mass == doctest::Approx(found.header.priority_mass));
    CHECK(f.table.consistent());
  }
}

TEST_CASE("a client that follows the changes of a queue is told what was drawn for good") {
  TableSpec spec = spec_of();
  spec.limiter.max_times_sampled = 2;
  Fixture f(spec);
  f.append(20);
  Follower follower;
  follower.ask(f.table, 100);
  REQUIRE(follower.items.size() == f.table.live_items());
  DrawnBatch drawn;
  f.table.draw(19, drawn);
  REQUIRE(f.table.live_items() < 17);
  follower.ask(f.table, 100);
  CHECK(follower.items.size() == f.table.live_items());
}

TEST_CASE(
    "an item is named as it stands, by its last change too; to a number from nowhere all are") {
  Fixture f;
  f.append(5);
  std::vector<uint64_t> keys;
  std::vector<float> priorities;
  const ChangesHeader first = f.table.changes(0, 100, keys, priorities);
  REQUIRE(keys.size() == 4);  // the fifth waits for its next row
  const uint64_t again = keys[1];
  uint64_t applied = 0, stale = 0;
  for (const float priority : {6.0f, 7.0f}) {
    f.table.update_priorities({&again, 1}, {&priority, 1}, applied, stale);
  }
  const ChangesHeader then = f.table.changes(first.next, 100, keys, priorities);
  CHECK(keys == std::vector<uint64_t>(2, again));
  CHECK(priorities == std::vector<float>(2, 7.0f));
  CHECK(then.more == 0);
  CHECK(f.table.changes(0, 100, keys, priorities).next == then.next);
  CHECK(std::set(keys.begin(), keys.end()).size() == 4);
  CHECK(keys.back() == again);
  for (const uint64_t nowhere : {uint64_t{1'000'000}, UINT64_MAX}) {
    CHECK(f.table.changes(nowhere, 100, keys, priorities).next == then.next);
    CHECK(std::set(keys.begin(), keys.end()).size() == 4);
  }
  CHECK(f.table.changes(then.next, 100, keys, priorities).next == then.next);
  CHECK(keys.empty());
  Fixture fresh(spec_of(), 2);  // of a server that was started anew, where others came first
  fresh.append(25);
  fresh.table.changes(0, 100, keys, priorities);
  const size_t all = keys.size();
  fresh.table.changes(then.next, 100, keys, priorities);
  CHECK(keys.size() == all);
  CHECK(f.table.changes(0, 0, keys, priorities).more == 1);
}

TEST_CASE(
    "a client that has missed more changes than are remembered is told of all items, by one list") {
  Fixture f;
  f.append(5);
  Follower often;
  often.ask(f.table, 100);
  std::array<Follower, 4> seldom;
  for (Follower& follower : seldom) follower.ask(f.table, 100);
  uint64_t applied = 0, stale = 0;
  for (int round = 0; round < 3; ++round) {
    f.append(30);  // of which the ring forgets the oldest
    often.ask(f.table, 100);
    for (int i = 0; i < 5000; ++i) {  // of one item: more than the log holds
      const auto priority = static_cast<float>(i + 1);
      const uint64_t key = often.items.rbegin()->first;
      f.table.update_priorities({&key, 1}, {&priority, 1}, applied, stale);
      REQUIRE(applied == 1);
      if (i % 1000 == 999) often.ask(f.table, 2000);
    }
    std::vector<uint64_t> keys;
    std::vector<float> priorities;
    const uint64_t before = f.table.changes(often.next, 0, keys, priorities).next;
    for (bool more = true; more;) {  // page by page in turn
      more = false;
      for (Follower& follower : seldom) more |= follower.page(f.table, 7);
    }
    for (const Follower& follower : seldom) CHECK(follower.items == often.items);
    CHECK(often.items.size() == f.table.live_items());
    often.ask(f.table, 100);
    CHECK(often.next - before <= f.table.rows());  // one list
    CHECK(often.next > before);
  }
}

}  // namespace drlnet::test
