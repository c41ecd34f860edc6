// Saved states that no server has written, with checksums that are right.
#include "base/printable.h"
#include "storage/row_files.h"
#include "storage/saved_table.h"

namespace drlnet::test {
namespace {

// A table's own state and rows, altered.
class Altered {
 public:
  explicit Altered(Life& life) : life_(life), state(life.make_cut()->state.tables[0].state) {
    for (uint64_t number = state.counters.oldest; number < state.counters.head; ++number) {
      rows.push_back(life.table->ring().row(life.table->ring().place(number).slot));
      rows.back().previous = rows.back().next = kNoSlot;
      rows.back().state = ItemState::none;
    }
  }

  // The newest row of a stream's, or the one before it.
  Row& newest(uint32_t ordinal, int before = 0) {
    for (auto row = rows.rbegin();; ++row) {
      if (row->ordinal == ordinal && before-- == 0) return *row;
    }
  }
  SavedItem& item(ItemState wanted) {
    return *std::ranges::find(state.items, wanted, &SavedItem::state);
  }
  std::unique_ptr<Table> restored() const {
    auto table = std::make_unique<Table>(life_.table->spec(), 0, 1);
    Ring& ring = table->restore_rows(state.counters);
    for (size_t i = 0; i < rows.size(); ++i) {
      ring.row(ring.place(state.counters.oldest + i).slot) = rows[i];
    }
    table->restore(state);
    table->have_columns_from(0);
    return table;
  }

 private:
  Life& life_;

 public:
  TableState state;
  std::vector<Row> rows;
};

}  // namespace

TEST_CASE("a table of streams that contradict their rows is refused") {
  Folder folder;
  Life life(folder.path);
  life.live_on(40);
  const Altered sound(life);
  CHECK(sound.restored()->consistent());
  CHECK(sound.restored()->live_items() == life.table->live_items());
  const auto refuses = [&](auto alter) {
    Altered altered = sound;
    alter(altered);
    CHECK_THROWS_AS(altered.restored(), Error);
  };
  refuses([](Altered& of) { --of.state.streams[1].last_number; });
  refuses([](Altered& of) { of.state.streams[1].last_number = kNoNumber; });
  refuses([](Altered& of) { ++of.state.streams[1].next_step; });
  refuses([](Altered& of) { of.state.streams[1].open ^= 1; });
  refuses([](Altered& of) { of.newest(1, 1).step += 7; });
  refuses([](Altered& of) { of.newest(1, 1).since_first += 2; });
  refuses([](Altered& of) { of.newest(1, 1).ordinal = 99; });
  refuses([](Altered& of) { of.state.counters.slots += 1; });
}

TEST_CASE("an item that its rows do not allow is not drawn") {
  Folder folder;
  Life life(folder.path);
  life.live_on(40);
  const Altered sound(life);
  const uint64_t live = life.table->live_items();
  SUBCASE("one that waits, though all of its rows are there") {
    Altered altered = sound;
    altered.item(ItemState::live).state = ItemState::pending;
    const auto table = altered.restored();
    CHECK(table->consistent());
    CHECK(table->live_items() == live - 1);
  }
  SUBCASE("one at the end of an episode") {
    Altered altered = sound;
    const auto last = std::ranges::find(altered.rows, uint8_t{kLast}, &Row::flags);
    REQUIRE(last != altered.rows.end());
    const uint64_t number =
        altered.state.counters.oldest + static_cast<uint64_t>(last - altered.rows.begin());
    altered.state.items.push_back({static_cast<uint32_t>(number % altered.state.counters.slots), 1,
                                   0, ItemState::pending, 0});
    const auto table = altered.restored();
    CHECK(table->consistent());
    CHECK(table->live_items() == live);
  }
}

TEST_CASE("a line of what is damaged stays one line, whatever its table is called") {
  Folder folder;
  TableSpec spec = saved_spec();
  spec.name = "re\nplay\x1b[2J";
  {
    Life life(folder.path, spec);
    life.live_on(40);
    life.save();
  }
  for (const Path& path : row_files(folder.path, 0)) remove_file(path);
  const Life life(folder.path, spec);
  REQUIRE(life.notes.size() == 1);
  CHECK(printable(life.notes[0]) == life.notes[0]);
  CHECK(life.notes[0].find("table 're\\x0aplay\\x1b[2J'") != std::string::npos);
}

TEST_CASE("a queue's state goes on in a ring with a larger reserve") {
  Folder folder;
  TableSpec spec = saved_spec(300, 3);
  Life life(folder.path, spec);
  life.live_on(400);  // round its ring
  life.save();
  const Picture picture = life.picture();
  REQUIRE(life.counters.head > life.counters.slots);
  REQUIRE_FALSE(picture.items.empty());
  spec.limiter.batch = 40;
  Life next(folder.path, spec);
  CHECK(next.table->consistent());
  CHECK(next.picture() == picture);
  next.live_on(10);
  next.save();
  CHECK(Life(folder.path, spec).picture() == next.picture());
}

}  // namespace drlnet::test
