// The rows as they came, in whatever pieces they are asked for.
#include <doctest/doctest.h>

#include <cmath>

#include "replay/request.h"

namespace drlnet::test {
namespace {

TableSpec spec_of() {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = 100;
  // Within a row's record, in an array of its own.
  spec.columns = {{"x", DataType::u8, {3}}, {"frame", DataType::u8, {700}}};
  spec.item.views = {{"x", 0, 0, 0, Pad::repeat, Align::anchor}};
  return spec;
}

}  // namespace

TEST_CASE("a run of rows is the same in any pieces, round the ring's end and behind a gap") {
  constexpr uint64_t kBase = uint64_t{1} << kKeyNumberBits;  // of epoch 1
  Table table(spec_of(), 0, 1);
  const Lease lease = table.streams().lease(1, 0);
  const RowLayout& layout = table.row_layout();
  CHECK(table.follow(0, 10)->count == 0);
  CHECK(table.follow(kBase, 10)->count == 0);
  CHECK_FALSE(table.follow(kBase + 1, 10));
  CHECK_FALSE(table.follow(5, 10));  // of no epoch
  const uint64_t rows = 2 * ring_slots(table.spec()) + 50;
  for (uint64_t row = 0; row < rows; ++row) {
    Request request(table.spec());
    request.segment(lease, row);
    request.row(row == 0 ? kFirst : 0, filled(table.spec(), row));
    REQUIRE(request.send(table) == Status::ok);
  }
  CHECK(table.head_key() == kBase + rows);
  const auto oldest = table.follow(0, 1000);
  REQUIRE(oldest);
  CHECK(oldest->first == kBase + rows - 100);
  CHECK(oldest->count == 100);
  CHECK(table.follow(kBase + 3, 7)->first == oldest->first);  // gone
  CHECK(table.follow(kBase + 3, 7)->count == 7);

  // The newest first.
  const auto newest = table.follow_back(0, 30);
  REQUIRE(newest);
  CHECK(newest->first == kBase + rows - 30);
  CHECK(newest->count == 30);
  CHECK(newest->head == kBase + rows);
  const auto older = table.follow_back(newest->first, 1000);
  CHECK(older->first == oldest->first);
  CHECK(older->count == 70);
  CHECK(table.follow_back(older->first, 5)->count == 0);
  CHECK(table.follow_back(kBase + 3, 5)->count == 0);
  CHECK_FALSE(table.follow_back(kBase + rows + 1, 5));

  // What is no longer held is there while it lies in the reserve.
  const uint64_t first = rows - ring_slots(table.spec());
  const auto run = table.follow(kBase + first, 1000);
  REQUIRE(run);
  CHECK(run->first == kBase + first);
  CHECK(run->count == 1000);
  CHECK(run->head == kBase + rows);
  std::vector<std::byte> whole(layout.total_bytes(run->count));
  REQUIRE(table.gather_rows(*run, 0, whole));
  for (uint32_t i = 0; i < run->count; ++i) {
    const auto row = filled(table.spec(), first + i);
    REQUIRE(std::memcmp(whole.data() + layout.column(run->count, 0) + 3 * i, row.data(), 3) == 0);
    REQUIRE(std::memcmp(whole.data() + layout.column(run->count, 1) + 700 * i, row.data() + 3,
                        700) == 0);
  }
  for (const size_t piece : {1u, 63u, 1000u, 8904u}) {
    std::vector<std::byte> part(piece);
    for (size_t at = 0; at < std::min<size_t>(whole.size(), 40 * piece); at += piece) {
      const size_t bytes = std::min(piece, whole.size() - at);
      Loans loans;
      REQUIRE(table.gather_rows(*run, at, std::span(part).first(bytes), &loans));
      loans.copy_out();
      REQUIRE(std::memcmp(part.data(), whole.data() + at, bytes) == 0);
    }
  }
  Request request(table.spec());
  request.segment(lease, rows);
  request.row(0, filled(table.spec(), rows));
  REQUIRE(request.send(table) == Status::ok);
  CHECK_FALSE(table.gather_rows(*run, 0, whole));  // its first row is overwritten
}

TEST_CASE("an index has the newest rows alone, and draws by reference as a table with all does") {
  TableSpec spec = spec_of();
  spec.capacity = 3000;
  spec.item.views = {{"x", 0, -2, 0, Pad::repeat, Align::anchor},
                     {"next", 0, 1, 1, Pad::repeat, Align::end}};
  Table whole(spec, 0, 1), index(spec, 0, 1, nullptr, true);
  CHECK(index.index_only());
  CHECK(Table::memory_bytes(spec, true) < Table::memory_bytes(spec) / 2);
  const Lease leases[] = {whole.streams().lease(1, 0), index.streams().lease(1, 0)};
  constexpr uint64_t kRows = 9000, kEpisode = 10;
  for (uint64_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < 2; ++i) {
      Request request(spec);
      request.segment(leases[i], row);
      const bool last = row % kEpisode == kEpisode - 1;
      request.row(static_cast<uint8_t>((row % kEpisode == 0 ? kFirst : 0) | (last ? kLast : 0)),
                  filled(spec, row));
      if (!last) request.item(leases[i], row, 1.0f + static_cast<float>(row % 7));
      REQUIRE(request.send(i == 0 ? whole : index) == Status::ok);
    }
  }
  CHECK(index.consistent());
  DrawnBatch drawn[2];
  REQUIRE(whole.draw_references(500, 0, drawn[0]));
  REQUIRE(index.draw_references(500, 0, drawn[1]));
  CHECK(drawn[0].keys == drawn[1].keys);
  CHECK(drawn[0].slots == drawn[1].slots);
  CHECK(drawn[0].lengths == drawn[1].lengths);

  const uint64_t head = index.head_key();
  const auto run = index.follow(0, 5000);
  REQUIRE(run);
  CHECK(run->count == index.kept_rows());
  CHECK(run->first + run->count == head);
  std::vector<std::byte> ours(index.row_layout().total_bytes(run->count)), theirs(ours.size());
  REQUIRE(index.gather_rows(*run, 0, ours));
  REQUIRE(whole.gather_rows(*run, 0, theirs));
  CHECK(std::memcmp(ours.data(), theirs.data(), ours.size()) == 0);
  CHECK(index.follow(run->first, 10)->count == 10);
  CHECK_FALSE(index.follow(run->first - 1, 10));
  CHECK(whole.follow(run->first - 1, 10));
}

TEST_CASE("items of the newest rows are drawn with their chances among these") {
  TableSpec spec = spec_of();
  spec.capacity = 1000;
  Table table(spec, 0, 1);
  const Lease lease = table.streams().lease(1, 0);
  const uint64_t rows = 3 * ring_slots(spec) + 400;  // those that are held lie round its end
  const auto priority = [](uint64_t row) { return 1.0f + static_cast<float>(row % 7); };
  for (uint64_t row = 0; row < rows; ++row) {
    Request request(spec);
    request.segment(lease, row);
    request.row(row == 0 ? kFirst : 0, filled(spec, row));
    if (row + 5 < rows) request.item(lease, row, priority(row));
    REQUIRE(request.send(table) == Status::ok);
  }
  const uint64_t head = table.head_key(), base = head - rows;
  DrawnBatch drawn;
  CHECK_FALSE(table.draw_references(10, head, drawn));
  CHECK_FALSE(table.draw_references(10, head - 5, drawn));  // rows without items
  for (const uint64_t newest : {6, 300, 401, 999, 1000, 5000}) {
    CAPTURE(newest);
    const uint64_t from = head - std::min(newest, rows), held = std::max(from, head - 1000);
    double mass = 0;
    std::vector<double> expected(rows);
    for (uint64_t row = held - base; row + 5 < rows; ++row) {
      expected[row] = std::pow(static_cast<double>(priority(row)), spec.sampler.priority_exponent);
      mass += expected[row];
    }
    std::vector<uint64_t> counts(rows);
    constexpr uint32_t kBatch = 500, kBatches = 40;
    for (uint32_t i = 0; i < kBatches; ++i) {
      REQUIRE(table.draw_references(kBatch, from, drawn));
      for (uint32_t n = 0; n < kBatch; ++n) {
        const uint64_t row = drawn.keys[n] - base;
        REQUIRE(drawn.keys[n] >= held);
        REQUIRE(static_cast<double>(drawn.probabilities[n]) ==
                doctest::Approx(expected[row] / mass).epsilon(1e-5));
        ++counts[row];
      }
    }
    // Stratified: each is drawn as often as it should be, but for one draw in a batch.
    for (uint64_t row = held - base; row + 5 < rows; ++row) {
      const double times = kBatches * kBatch * expected[row] / mass;
      REQUIRE(std::abs(static_cast<double>(counts[row]) - times) <
              6 * std::sqrt(std::min<double>(times, kBatches)) + 1);
    }
  }
}

}  // namespace drlnet::test
