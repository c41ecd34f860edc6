// Rows come back in two parts: what the index knows of them, and their columns, while the table is
// used.
#include "storage/row_loader.h"

#include <set>

#include "base/world.h"
#include "storage/saved_table.h"

namespace drlnet::test {
namespace {

// Without what changes: priorities.
std::vector<std::byte> rows_of(const std::pair<float, std::vector<std::byte>>& item) {
  return {item.second.end() - 16, item.second.end()};
}

}  // namespace

TEST_CASE("a table is drawn from and appended to while the columns of its rows come") {
  for (const uint64_t capacity : {300, 3000}) {
    Folder folder;
    Picture before;
    {
      Life life(folder.path, saved_spec(capacity));
      for (int i = 0; i < 40; ++i) {
        life.live_on(20);
        life.save();
      }
      before = life.picture();
    }
    Picture last;
    {
      Life life(folder.path, saved_spec(capacity), 2, false);
      CHECK(life.picture().items.empty());
      CHECK(life.table->live_items() == 0);
      CHECK(life.counters.items_created == before.counters.items_created);
      std::set<size_t> sizes;
      ReadColumns columns;
      for (int i = 0; life.late.rows->next_columns(columns); ++i) {
        place_columns(columns, life.late, life.notes);
        life.table->have_columns_from(columns.first);
        CHECK(life.table->consistent());
        const auto found = picture_of(*life.table, before.counters).items;
        for (const auto& [number, item] : found) {
          const auto was = before.items.find(number);  // pending ones are not there
          if (was != before.items.end()) CHECK(rows_of(was->second) == rows_of(item));
        }
        sizes.insert(found.size());
        if (i % 4 == 0) life.live_on(2);
        CHECK(life.table->consistent());
        if (i % 8 == 0) life.save();
      }
      CHECK(sizes.size() > 2);
      life.table->have_columns_from(0);
      CHECK(life.table->consistent());
      const auto found = picture_of(*life.table, before.counters).items;
      for (const auto& [number, item] : before.items) {  // and looks back to none overwritten
        if (number > life.table->ring().oldest() + 40) CHECK(found.contains(number));
      }
      life.save();
      last = life.picture();
      CHECK(life.notes.empty());
    }
    CHECK(Life(folder.path, saved_spec(capacity)).picture() == last);
  }
}

TEST_CASE("a thread reads the columns while the table lives on, and may be told to stop") {
  Folder folder;
  Picture before;
  {
    Life life(folder.path, saved_spec(3000));
    for (int i = 0; i < 40; ++i) {
      life.live_on(20);
      life.save();
    }
    before = life.picture();
  }
  for (const bool to_the_end : {false, true}) {
    Life life(folder.path, saved_spec(3000), 2, false);
    WakeFd came;
    RowLoader loader(
        [&] {
          std::vector<LateTable> late;
          late.push_back(std::move(life.late));
          return late;
        }(),
        [&] { came.wake(); });
    for (int runs = 0; !loader.finished() && (to_the_end || runs < 10);) {
      came.clear();
      if (loader.place_next(life.notes)) {
        ++runs;
        life.live_on(1);
      } else {
        came.wait(now_ns() + 100'000'000);
      }
    }
    CHECK(loader.finished() == to_the_end);
    CHECK((loader.rows_to_come() == 0) == to_the_end);
    CHECK(life.table->consistent());
    CHECK(life.notes.empty());
    if (!to_the_end) continue;
    const auto found = picture_of(*life.table, before.counters).items;
    for (const auto& [number, item] : before.items) {  // and looks back to none overwritten
      if (number > life.table->ring().oldest() + 40) CHECK(found.contains(number));
    }
  }
}

TEST_CASE("items come back in their order where that tells in what is drawn") {
  TableSpec spec = saved_spec(3000);
  spec.sampler.name = "fifo";
  Folder folder;
  {
    Life life(folder.path, spec);
    for (int i = 0; i < 5; ++i) {  // a run of rows each
      life.live_on(20);
      life.save();
    }
  }
  Life life(folder.path, spec);
  CHECK(life.table->needs_columns());
  REQUIRE(life.table->live_items() > 100);
  DrawnBatch found;
  life.table->draw(100, found);
  CHECK(std::ranges::is_sorted(found.keys));
  CHECK(found.keys.front() < (uint64_t{1} << kKeyNumberBits) + 20);
}

TEST_CASE("columns that are damaged cost the items that have their rows, and no others") {
  Folder folder;
  Picture before;
  {
    Life life(folder.path, saved_spec(3000));
    for (int i = 0; i < 30; ++i) {
      life.live_on(20);
      life.save();
    }
    before = life.picture();
  }
  const Path path = row_files(folder.path, 0).front();
  std::vector<std::byte> bytes = read_file(path);
  bytes[bytes.size() / 2] ^= std::byte{4};  // most of a run is columns
  File::create(path).append(bytes);
  Life life(folder.path, saved_spec(3000));
  REQUIRE(life.notes.size() == 1);
  CHECK(life.notes[0].starts_with(path.filename().string()));
  CHECK(life.notes[0].find("are given up") != std::string::npos);
  CHECK(life.table->consistent());
  const Picture found = life.picture();
  CHECK(found.items.size() < before.items.size());
  CHECK(found.items.size() > before.items.size() / 2);
  CHECK(found.items.begin()->first == before.items.begin()->first);
  CHECK(found.items.rbegin()->first == before.items.rbegin()->first);
  for (const auto& [number, item] : found.items) CHECK(before.items.at(number) == item);
  life.live_on(40);
  CHECK(life.table->consistent());
}

}  // namespace drlnet::test
