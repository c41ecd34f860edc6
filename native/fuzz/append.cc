// Appends: whatever bytes come, a table takes all of an append or nothing, and stays consistent.
#include "base/assert.h"
#include "fuzz.h"
#include "raw_session.h"
#include "replay/table.h"

namespace drlnet::fuzz {
namespace {

// Bodies follow one another, each behind a u32 of its length, as one stream's writer sends them.
Bytes appends(std::initializer_list<Bytes> bodies) {
  Bytes out;
  for (const Bytes& body : bodies) {
    const auto length = static_cast<uint32_t>(body.size());
    const auto prefix = std::as_bytes(std::span(&length, 1));
    out.insert(out.end(), prefix.begin(), prefix.end());
    out.insert(out.end(), body.begin(), body.end());
  }
  return out;
}

void draw_and_gather(Table& table) {
  constexpr uint32_t kBatch = 5;
  if (table.may_sample(kBatch) != Wait::none) return;
  DrawnBatch drawn;
  table.draw(kBatch, drawn);
  Bytes reply(table.layout().total_bytes(kBatch));
  DRLNET_ASSERT(table.gather(drawn, 0, reply));
  uint64_t applied = 0, stale = 0;
  table.update_priorities(drawn.keys, drawn.probabilities, applied, stale);
  DRLNET_ASSERT(applied + stale <= kBatch);
  std::vector<uint64_t> keys;
  std::vector<float> priorities;
  const ChangesHeader changes = table.changes(0, 2 * kBatch, keys, priorities);
  DRLNET_ASSERT(changes.count == keys.size() && changes.oldest <= changes.head);
  table.look_up(keys, drawn);
  reply.resize(table.layout().total_bytes(keys.size()));
  DRLNET_ASSERT(table.gather(drawn, 0, reply));
}

}  // namespace

std::vector<Bytes> seeds() {
  return {appends({append_body(0, 0, 6), append_body(0, 6, 6), append_body(1, 0, 3)}),
          appends({append_body(0, 0, 40), append_body(0, 40, 40), append_body(0, 60, 40)})};
}

void run(std::span<const std::byte> input) {
  const TableSpec spec = small_table();
  Table table(spec, 0, 1);
  const std::vector<Lease> leases = {table.streams().lease(1, 1), table.streams().lease(1, 1)};
  std::vector<uint32_t> column_bytes;
  for (const ColumnSpec& column : spec.columns) {
    column_bytes.push_back(static_cast<uint32_t>(column.bytes()));
  }
  std::vector<std::span<const std::byte>> columns;
  while (input.size() >= sizeof(uint32_t)) {
    uint32_t length;
    std::memcpy(&length, input.data(), sizeof length);
    input = input.subspan(sizeof length);
    Bytes body = exact(input.first(std::min<size_t>(length, input.size())));
    input = input.subspan(body.size());
    insert_tokens(body, leases);
    Append append{{}, {}, columns, {}};
    if (!split_append(body, column_bytes, append)) continue;
    AppendResult result;
    table.append(append, result);
    DRLNET_ASSERT(table.consistent());
    draw_and_gather(table);
  }
}

}  // namespace drlnet::fuzz
