#include "client/row_mirror.h"

#include <thread>

#include "client/bench.h"
#include "spec/items.h"

namespace drlnet::test {
namespace {

// A mirror that is given runs of rows, and what it has of them.
struct Runs {
  using Numbers = std::vector<uint64_t>;

  Runs() { spec.item.views = {{"reward", 1, 0, 0, Pad::repeat, Align::anchor}}; }
  void store(uint64_t first, uint32_t count, uint64_t head) {
    std::vector<std::byte> reply(layout.total_bytes(count));
    const FollowHeader run{first, head, count, {}};
    std::memcpy(reply.data(), &run, sizeof run);
    for (uint32_t i = 0; i < count; ++i) {
      const float value = value_of(0, first + i);
      std::memcpy(reply.data() + layout.column(count, 1) + 4 * i, &value, sizeof value);
    }
    rows.store(reply);
  }
  // Draws the rows of these numbers, one item each; returns those that were here.
  Numbers gather(uint64_t head, const Numbers& numbers) {
    DrawnBatch drawn;
    drawn.header.head = head;
    for (const uint64_t number : numbers) {
      drawn.keys.push_back(number);
      drawn.slots.push_back(static_cast<uint32_t>(head - number));
    }
    drawn.probabilities.resize(numbers.size());
    drawn.lengths.resize(numbers.size());
    const SampleLayout batch(spec);
    std::vector<float> values(numbers.size());
    Places places;
    rows.gather(drawn, [&](uint32_t left) -> const Places& {
      places.reply_bytes = batch.total_bytes(left);
      values.resize(left);
      places.runs = {{batch.window(left, 0), std::as_writable_bytes(std::span(values))}};
      return places;
    });
    values.resize(drawn.keys.size());
    for (size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == value_of(0, drawn.keys[i]));
    return drawn.keys;
  }

  TableSpec spec = spec_of(1000);
  RowLayout layout{spec};
  RowMirror rows{[](TableSpec part) {
    part.item.views = {{"reward", 1, 0, 0, Pad::repeat, Align::anchor}};
    return part;
  }(spec)};
};

}  // namespace

TEST_CASE("rows with a gap before them let the older ones go") {
  Runs here;
  RowMirror& rows = here.rows;
  const auto store = [&](uint64_t first, uint32_t count, uint64_t head) {
    here.store(first, count, head);
  };
  const auto gather = [&](uint64_t head, const Runs::Numbers& numbers) {
    return here.gather(head, numbers);
  };
  using Numbers = std::vector<uint64_t>;
  store(5, 10, 20);
  CHECK(rows.behind() == 5 + 5);  // and older ones
  CHECK(rows.from(deadline_in(kPatienceNs), {}) == 5);
  CHECK(error_of([&] { rows.wait_for(0, 4, 15, deadline_in(1'000'000), {}); }).status() ==
        Status::timeout);
  rows.end_older();
  CHECK(rows.behind() == 5);
  CHECK(rows.from(deadline_in(kPatienceNs), {}) == 5);  // none is older that will come
  CHECK_FALSE(rows.wait_for(0, 4, 15, deadline_in(kPatienceNs), {}));
  CHECK(gather(20, {4, 5, 14}) == Numbers{5, 14});
  store(12, 8, 20);  // three of them are here already
  CHECK(rows.rows() == 15);
  CHECK(gather(20, {5, 14, 19}) == Numbers{5, 14, 19});
  store(30, 2, 32);
  CHECK(gather(32, {19, 30, 31, 5}) == Numbers{30, 31});
  const uint64_t size = ring_slots(here.spec);
  CHECK(rows.from(deadline_in(kPatienceNs), {}) == 30);
  for (uint64_t at = 32; at < 2 * size; at += 100) store(at, 100, at + 100);
  CHECK(rows.from(deadline_in(kPatienceNs), {}) == 0);  // anywhere
  const uint64_t head = rows.head();
  CHECK(gather(head, {head - size - 1, head - size, head - 1}) == Numbers{head - size, head - 1});
}

TEST_CASE("older rows come behind the newest, until there are none or no room is left") {
  Runs here;
  RowMirror& rows = here.rows;
  const uint64_t size = ring_slots(here.spec);
  here.store(3000, 100, 3100);
  CHECK(rows.behind() == here.spec.capacity - 100);
  here.store(3100, 10, 3110);  // new ones pass
  here.store(2900, 100, 3110);
  CHECK(rows.first_key() == 2900);
  here.store(2700, 100, 3110);  // does not touch them: of requests that were given up
  CHECK(rows.first_key() == 2900);
  here.store(2850, 100, 3110);  // half of it is here
  CHECK(rows.first_key() == 2850);
  CHECK(rows.rows() == 100 + 10 + 100 + 50);
  CHECK(here.gather(3110, {2849, 2850, 2999, 3000, 3109}) == Runs::Numbers{2850, 2999, 3000, 3109});
  std::thread waits([&] { rows.wait_for(0, 2750, 3110, deadline_in(kPatienceNs), {}); });
  here.store(2750, 100, 3110);
  waits.join();
  here.store(3110, static_cast<uint32_t>(size - 380), 3110 + size - 380);
  const uint64_t head = rows.head();
  here.store(2700, 50, head);  // all but 20 lie where the newest do
  CHECK(rows.first_key() == 2730);
  CHECK(here.gather(head, {2729, 2730, 2750, head - 1}) == Runs::Numbers{2730, 2750, head - 1});
}

TEST_CASE("rows of the server's next life are others, whatever their numbers") {
  Runs here;
  RowMirror& rows = here.rows;
  const uint64_t later = uint64_t{1} << kKeyNumberBits;
  here.store(5, 10, 15);
  CHECK(here.gather(15, {7}) == Runs::Numbers{7});
  const auto wait_for_later = [&] { rows.wait_for(later, 5, 7, deadline_in(1'000'000), {}); };
  CHECK(error_of(wait_for_later).status() == Status::timeout);
  CHECK(here.gather(later + 15, {later + 7}).empty());
  rows.forget();
  CHECK(rows.next_key() == 0);
  here.store(later + 2, 8, later + 10);
  wait_for_later();
  CHECK(here.gather(later + 10, {later + 5}) == Runs::Numbers{later + 5});
  // A draw of the life before waits for nothing, and is drawn again.
  CHECK_FALSE(rows.wait_for(0, 5, 15, deadline_in(kPatienceNs), {}));
  CHECK(here.gather(15, {7}).empty());
}

}  // namespace drlnet::test
