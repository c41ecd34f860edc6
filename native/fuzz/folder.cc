// The folder of a server's state. Whatever bytes its files have, with checksums as right as those
// of a server that went wrong, it is read or refused; tables that are made of it are sound, go on,
// and are saved again.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include "../tests/replay/request.h"
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/printable.h"
#include "fuzz.h"
#include "raw_session.h"
#include "storage/recovery.h"
#include "storage/row_loader.h"
#include "storage/state_folder.h"
#include "storage/storage.h"

namespace drlnet::fuzz {
namespace {

constexpr uint64_t kLineage = 1;  // of seeds
constexpr uint32_t kTable = 1;
constexpr uint64_t kMostTableBytes = 4 << 20;
constexpr uint64_t kMostRecords = uint64_t{1} << 62;
using Tables = std::vector<std::shared_ptr<Table>>;

// An input is files, each behind a byte of which one it is and a u16 of its length.
constexpr std::array kFiles = {"identity",
                               "identity-copy",
                               "shard-0/snapshot-0000000000000000001",
                               "shard-0/snapshot-0000000000000000002",
                               "shard-0/snapshot-0000000000000000003",
                               "shard-0/rows-00001-000000000000",
                               "shard-0/rows-00001-000000000001",
                               "shard-0/params-0000000000000000003"};
constexpr std::byte kAsItIs{0x80};  // a flag beside the number: its checksums stay

// One for all inputs, in memory where the machine has such a place; removed as the process ends.
class Folder {
 public:
  Folder() {
    const Path memory = "/dev/shm";
    std::string name =
        ((std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path()) /
         "drlnet-fuzz-XXXXXX")
            .string();
    DRLNET_ASSERT(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void empty() const {
    for (const Path& each : list_folder(path)) std::filesystem::remove_all(each);
    make_folder(path / "shard-0");
  }

  Path path;
};

const Folder& folder() {
  static const Folder one;
  return one;
}

template <typename Header>
void repair(Bytes& file, size_t at, Header& header) {
  set_crc(header);
  std::memcpy(&file[at], &header, sizeof header);
}

// Makes the checksums of a file right, as far as its parts can be followed.
void repair(Bytes& file) {
  FileHeader header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  repair(file, 0, header);
  PartHeader part;
  for (size_t at = sizeof header; file.size() - at >= sizeof part;) {
    std::memcpy(&part, &file[at], sizeof part);
    const size_t left = file.size() - at - sizeof part;
    if (part.bytes <= left) {
      part.body_crc = crc32c(std::span(file).subspan(at + sizeof part, part.bytes));
    }
    repair(file, at, part);
    if (part.bytes > left) return;
    at += sizeof part + part.bytes;
  }
}

void unpack(std::span<const std::byte> input) {
  folder().empty();
  while (input.size() > 3) {
    const std::byte which = input[0];
    uint16_t length;
    std::memcpy(&length, &input[1], sizeof length);
    input = input.subspan(3);
    Bytes file = exact(input.first(std::min<size_t>(length, input.size())));
    input = input.subspan(file.size());
    if ((which & kAsItIs) == std::byte{0}) repair(file);
    const auto number = static_cast<size_t>(which & ~kAsItIs) % kFiles.size();
    std::ofstream(folder().path / kFiles[number], std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
  }
}

Bytes pack() {
  Bytes input;
  ByteWriter writer(input);
  for (size_t i = 0; i < kFiles.size(); ++i) {
    const Path path = folder().path / kFiles[i];
    if (!file_exists(path)) continue;
    const Bytes file = read_file(path);
    writer.put(static_cast<uint8_t>(i));
    writer.put(static_cast<uint16_t>(file.size()));
    writer.raw(file);
  }
  return input;
}

// Whether all tables that records speak of are as small as those here should be.
bool is_small(const Path& shard) {
  for (const Path& path : snapshot_files(shard)) {
    const Bytes file = read_file(path);
    PartReader parts(file, FileKind::snapshot, 0);
    SavedState state;
    while (const auto part = parts.next()) {
      if (!decode(part->body, state)) continue;
      for (const SavedTable& table : state.tables) {
        if (Table::memory_bytes(table.asked) > kMostTableBytes) return false;
      }
    }
  }
  return true;
}

// The tables of the newest record that has all that is needed, as a server makes them.
Tables take_in(Recovery& recovery) {
  Tables tables;
  std::vector<std::string> notes;
  const auto load_all = [&] {
    tables.clear();
    for (size_t i = 0; i < recovery.state()->tables.size(); ++i) {
      const SavedTable& saved = recovery.state()->tables[i];
      tables.push_back(std::make_shared<Table>(saved.asked, 0, 1));
      LateTable late{tables.back(), nullptr, saved.asked.name};
      late.rows = recovery.load(saved, *tables.back());
      if (!late.rows) return false;
      DRLNET_ASSERT(late.table->consistent());
      place_all_columns(late, notes);
    }
    return true;
  };
  while (recovery.state() != nullptr && !load_all()) continue;
  for (const auto& table : tables) DRLNET_ASSERT(table->consistent());
  if (const auto params = recovery.params()) {
    DRLNET_ASSERT(params->version <= recovery.last_params_version());
  }
  notes.insert(notes.end(), recovery.notes().begin(), recovery.notes().end());
  for (const std::string& note : notes) {
    DRLNET_ASSERT(!note.empty() && printable(note) == note);
  }
  return tables;
}

void draw_and_gather(Table& table) {
  constexpr uint32_t kBatch = 5;
  if (table.may_sample(kBatch) != Wait::none) return;
  DrawnBatch drawn;
  table.draw(kBatch, drawn);
  Bytes reply(table.layout().total_bytes(kBatch));
  DRLNET_ASSERT(table.gather(drawn, 0, reply));
}

// The lease's rows, an episode of `rows`, each with an item.
void append(Table& table, Lease& lease, uint32_t rows) {
  test::Request request(table.spec());
  request.segment(lease, lease.next_step);
  for (uint32_t i = 0; i < rows; ++i, ++lease.next_step) {
    request.row(static_cast<uint8_t>((i == 0 ? kFirst : 0) | (i + 1 == rows ? kLast : 0)),
                test::filled(table.spec(), lease.next_step));
    request.item(lease, lease.next_step, 0.5f);
  }
  auto columns = request.columns();
  const Append append{request.segments_, request.flags_, columns, request.items_};
  AppendResult result;
  if (table.may_insert(append)) table.append(append, result);
}

std::unique_ptr<Cut> make_cut(const SavedState& before, const Tables& tables) {
  auto cut = std::make_unique<Cut>();
  cut->state = before;
  ++cut->state.sequence;
  cut->tables = {tables.begin(), tables.end()};
  for (size_t i = 0; i < tables.size(); ++i) {
    TableState& state = cut->state.tables[i].state;
    const uint64_t saved_to = state.counters.head;
    tables[i]->save(state);
    cut->rows_from.push_back(std::max(saved_to, state.counters.oldest));
  }
  return cut;
}

void save(Storage& storage, std::unique_ptr<Cut> cut) {
  storage.write(std::move(cut));
  storage.finish();
  DRLNET_ASSERT(storage.take_written());
}

// What a server does with what is there.
void live(const StateFolder& state) {
  const Path shard = state.shard(0);
  ReadProgress progress;
  Recovery recovery(shard, state.lineage(), progress);
  const Tables tables = take_in(recovery);
  if (recovery.state() == nullptr || recovery.state()->sequence > kMostRecords) return;
  const SavedState& found = *recovery.state();
  for (size_t i = 0; i < tables.size(); ++i) {
    tables[i]->begin_saving();
    draw_and_gather(*tables[i]);
    const auto& streams = found.tables[i].state.streams;
    if (streams.empty() || streams[0].leased == 0) continue;
    Lease lease = tables[i]->streams().resume(0, streams[0].token, 1);
    append(*tables[i], lease, 7);
    DRLNET_ASSERT(tables[i]->consistent());
    draw_and_gather(*tables[i]);
  }
  Storage storage(shard, state.lineage(), recovery.snapshot(), [] {});
  save(storage, make_cut(found, tables));
  Recovery again(shard, state.lineage(), progress);
  DRLNET_ASSERT(again.state() != nullptr && again.state()->sequence == found.sequence + 1);
  take_in(again);
}

// A state that was saved each time after that number of rows had come.
Bytes saved(const TableSpec& spec, std::initializer_list<uint32_t> rows) {
  folder().empty();
  FileHeader header{.kind = FileKind::identity, .lineage = kLineage};
  set_crc(header);
  Bytes bytes;
  ByteWriter(bytes).put(header);
  const Identity identity{.incarnation = 1, .shards = 1, .epoch = 1};
  append_part({.kind = kIdentity}, std::as_bytes(std::span(&identity, 1)), bytes);
  replace_file(folder().path / kFiles[0], bytes);
  const StateFolder state(folder().path, 1, 1);
  const Tables tables{std::make_shared<Table>(spec, 0, 1)};
  tables[0]->begin_saving();
  Lease lease = tables[0]->streams().lease(1, 0);
  SavedState record{.sequence = 0,
                    .blobs_version = 1,
                    .next_table = kTable + 1,
                    .params_version = 3,
                    .dropped = {{0, "gone"}},
                    .tables = {{kTable, spec, {}}},
                    .blobs = {{"settings", 1, Bytes(9, std::byte{7})}}};
  Storage storage(state.shard(0), kLineage, {}, [] {});
  for (const uint32_t each : rows) {
    append(*tables[0], lease, each);
    auto cut = make_cut(record, tables);
    cut->state.tables[0].state.streams[0].token = 1;  // a secret is not the same in each run
    cut->params = std::make_shared<Params>(3, Bytes(10, std::byte{3}));
    record = cut->state;
    save(storage, std::move(cut));
  }
  return pack();
}

}  // namespace

std::vector<Bytes> seeds() {
  TableSpec queue = small_table();
  queue.limiter.max_times_sampled = 2;
  // A snapshot and a record of changes; two snapshots, whose ring has gone round; a queue.
  return {saved(small_table(), {6, 5}), saved(small_table(), {60, 30, 20}), saved(queue, {12, 9})};
}

void run(std::span<const std::byte> input) {
  unpack(input);
  try {
    const StateFolder state(folder().path, 1, 7, true);
    if (!is_small(state.shard(0))) return;
    ReadProgress progress;
    Recovery recovery(state.shard(0), state.lineage(), progress);
    take_in(recovery);
  } catch (const Error& error) {
    DRLNET_ASSERT(!error.cause().empty());
  }
  try {
    live(StateFolder(folder().path, 1, 7));
  } catch (const Error& error) {
    DRLNET_ASSERT(!error.cause().empty());
  }
}

}  // namespace drlnet::fuzz
