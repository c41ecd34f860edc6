// A table that is filled at random, and its state on disk, written and read as a server does.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>

#include "replay/request.h"
#include "storage/recovery.h"
#include "storage/row_loader.h"
#include "storage/storage.h"

namespace drlnet::test {

constexpr uint64_t kLineage = 77;

// A folder of its own that goes with it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "drlnet-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  Path path;
};

inline TableSpec saved_spec(uint64_t capacity = 300, uint32_t most_draws = 0) {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = capacity;
  spec.columns = {{"x", DataType::u32, {}}, {"image", DataType::u8, {100}}};
  spec.item.views = {{"x", 0, -2, 3, Pad::repeat, Align::anchor}};
  spec.limiter.max_times_sampled = most_draws;
  return spec;
}

// What can be seen of a table: its items with their priorities and bytes, and its counts.
struct Picture {
  std::map<uint64_t, std::pair<float, std::vector<std::byte>>> items;
  TableCounters counters;
  bool operator==(const Picture& other) const {
    return items == other.items && counters.head == other.counters.head &&
           counters.oldest == other.counters.oldest &&
           counters.items_created == other.counters.items_created &&
           counters.env_steps == other.counters.env_steps &&
           counters.items_retired == other.counters.items_retired &&
           counters.maximum_priority == other.counters.maximum_priority &&
           std::ranges::equal(counters.random, other.counters.random);
  }
};

inline Picture picture_of(Table& table, const TableCounters& counters) {
  Picture picture{{}, counters};
  std::vector<std::byte> reply(table.layout().total_bytes(1));
  DrawnBatch found;
  for (uint64_t number = counters.oldest; number < counters.head; ++number) {
    const std::vector<uint64_t> keys{(uint64_t{1} << kKeyNumberBits) + number};
    table.look_up(keys, found);
    if (found.keys[0] == kNoKey) continue;
    REQUIRE(table.gather(found, 0, reply));
    // Behind the header, which counts, and the key, the same everywhere.
    picture.items[number] = {found.probabilities[0], {reply.begin() + 128, reply.end()}};
  }
  return picture;
}

// A life of a server with one table.
class Life {
 public:
  // whole: the table has the columns of its rows, too; else `late` has them.
  explicit Life(const Path& folder, TableSpec spec = saved_spec(), uint64_t seed = 1,
                bool whole = true)
      : spec_(std::move(spec)), random_(seed) {
    ReadProgress progress;
    Recovery recovery(folder, kLineage, progress);
    while (recovery.state() != nullptr) {
      table = std::make_shared<Table>(spec_, 0, 1);
      late = {table, recovery.load(recovery.state()->tables[0], *table), spec_.name};
      if (late.rows) break;
    }
    params = recovery.params();
    notes = recovery.notes();
    lost = recovery.rows_lost() > 0;
    if (const SavedState* state = recovery.state()) {
      sequence = state->sequence;
      counters = state->tables[0].state.counters;
      saved_head_ = counters.head;
      for (uint32_t i = 0; i < state->tables[0].state.streams.size(); ++i) {
        const SavedStream& stream = state->tables[0].state.streams[i];
        leases_.push_back(table->streams().resume(i, stream.token, 1));
        open_.push_back(stream.open != 0);
      }
    } else {
      table = std::make_shared<Table>(spec_, 0, 1);
      for (int i = 0; i < 3; ++i) leases_.push_back(table->streams().lease(1, 0));
      open_.resize(3);
    }
    table->begin_saving();
    if (whole && late.rows) have_columns();
    storage = std::make_unique<Storage>(folder, kLineage, recovery.snapshot(), [] {});
  }

  // Appends rows of all streams, some of them items, and changes some priorities.
  void live_on(int appends) {
    for (int n = 0; n < appends; ++n) {
      Request request(spec_);
      for (size_t i = 0; i < leases_.size(); ++i) {
        request.segment(leases_[i], leases_[i].next_step);
        const auto rows = random_.below(4);
        for (uint64_t row = 0; row < rows; ++row) {
          const bool last = open_[i] && random_.below(10) == 0;
          const auto flags = static_cast<uint8_t>((open_[i] ? 0 : kFirst) | (last ? kLast : 0));
          request.row(flags, filled(spec_, leases_[i].next_step * 3 + i));
          open_[i] = !last;
          if (!last && random_.below(3) > 0) {
            request.item(leases_[i], leases_[i].next_step, static_cast<float>(random_.uniform()));
          }
          ++leases_[i].next_step;
        }
      }
      auto columns = request.columns();
      const Append append{request.segments_, request.flags_, columns, request.items_};
      while (table->is_queue() && !table->may_insert(append)) update();
      AppendResult result;
      REQUIRE(table->append(append, result) == Status::ok);
      update();
    }
  }
  std::unique_ptr<Cut> make_cut() {
    auto cut = std::make_unique<Cut>();
    cut->state.sequence = ++sequence;
    cut->state.next_table = 1;
    cut->state.tables.push_back({0, spec_, {}});
    cut->state.tables[0].asked.capacity *= shards;
    table->save(cut->state.tables[0].state);
    counters = cut->state.tables[0].state.counters;
    cut->tables.push_back(table);
    cut->rows_from.push_back(std::max(saved_head_, counters.oldest));
    if (params) {
      cut->state.params_version = params->version;
      cut->params = params;
    }
    return cut;
  }
  void save() {
    storage->write(make_cut());
    storage->finish();
    REQUIRE(storage->take_written());
    saved_head_ = counters.head;
  }
  Picture picture() { return picture_of(*table, counters); }
  void have_columns() {
    const size_t before = notes.size();
    place_all_columns(late, notes);
    lost |= notes.size() > before;
  }

  std::shared_ptr<Table> table;
  std::unique_ptr<Storage> storage;
  std::shared_ptr<const Params> params;
  std::vector<std::string> notes;
  bool lost = false;  // some rows are
  uint64_t sequence = 0;
  LateTable late;
  TableCounters counters;  // of the newest record
  uint64_t shards = 1;     // of the table that clients ask for

 private:
  void update() {
    if (table->live_items() == 0) return;
    DrawnBatch drawn;
    table->draw(1, drawn);
    if (table->is_queue()) return;
    uint64_t applied = 0, stale = 0;
    const std::vector<float> priority{static_cast<float>(random_.uniform() * 5)};
    REQUIRE(table->update_priorities(drawn.keys, priority, applied, stale) == Status::ok);
  }

  TableSpec spec_;
  Random random_;
  std::vector<Lease> leases_;
  std::vector<bool> open_;
  uint64_t saved_head_ = 0;
};

}  // namespace drlnet::test
