// Files of a server's state: whatever bytes they have, parsers take or refuse them, and a table
// that is made of what they say is sound.
#include "base/assert.h"
#include "base/error.h"
#include "fuzz.h"
#include "raw_session.h"
#include "replay/table.h"
#include "storage/format.h"

namespace drlnet::fuzz {
namespace {

// The first byte of an input says what it is.
enum Kind : uint8_t { kFile, kRecord };

SavedState small_state() {
  Table table(small_table(), 0, 1);
  table.begin_saving();
  table.streams().lease(1, 0);
  SavedState state{.sequence = 4,
                   .next_table = 2,
                   .params_version = 3,
                   .dropped = {{0, "gone"}},
                   .tables = {},
                   .blobs = {}};
  state.tables.push_back({1, table.spec(), {}});
  table.save(state.tables[0].state);
  TableCounters& counters = state.tables[0].state.counters;
  counters.head = 7;
  state.tables[0].state.items = {{3, 0.5f, 0, ItemState::live, 0},
                                 {5, 1.0f, 0, ItemState::pending, 0}};
  return state;
}

void run_record(std::span<const std::byte> bytes) {
  SavedState state;
  if (!decode(bytes, state)) return;
  Bytes again;
  encode(state, again);
  SavedState same;
  DRLNET_ASSERT(decode(again, same) && same.sequence == state.sequence);
  for (const SavedTable& saved : state.tables) {
    if (Table::memory_bytes(saved.asked) > (4 << 20)) continue;
    try {
      Table table(saved.asked, 0, 1);
      table.restore_rows(saved.state.counters);
      table.restore(saved.state);
      table.begin_saving();
      TableState kept;
      table.save(kept);
      DRLNET_ASSERT(kept.counters.head == saved.state.counters.head);
    } catch (const Error& error) {
      DRLNET_ASSERT(!error.cause().empty());
    }
  }
}

void run_file(std::span<const std::byte> bytes) {
  for (const FileKind kind :
       {FileKind::identity, FileKind::rows, FileKind::snapshot, FileKind::params}) {
    PartReader parts(bytes, kind, 0);
    uint64_t before = parts.offset();
    while (const auto part = parts.next()) {
      DRLNET_ASSERT(parts.offset() > before && parts.offset() <= bytes.size());
      before = parts.offset();
      SavedState state;
      decode(part->body, state);
    }
    DRLNET_ASSERT(!(parts.damaged() && parts.cut_short()));
  }
}

}  // namespace

std::vector<Bytes> seeds() {
  Bytes record{std::byte{kRecord}}, body, file{std::byte{kFile}};
  encode(small_state(), body);
  record.insert(record.end(), body.begin(), body.end());
  FileHeader header{.kind = FileKind::snapshot, .lineage = 1, .name = 4};
  set_crc(header);
  ByteWriter(file).put(header);
  append_part({.kind = kBase, .number = 4}, body, file);
  append_part({.kind = kChanges, .number = 5}, body, file);
  return {record, file};
}

void run(std::span<const std::byte> input) {
  if (input.empty()) return;
  const Bytes bytes = exact(input.subspan(1));
  if (input[0] == std::byte{kFile}) return run_file(bytes);
  run_record(bytes);
}

}  // namespace drlnet::fuzz
