#include "server/sample.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "server/reply.h"
#include "server/server.h"

namespace drlnet {
namespace {

// The reply is a descriptor (what was drawn); its rows are gathered when they are sent.
class SampleReply final : public ReplySource {
 public:
  const Table* table = nullptr;
  uint32_t bytes = 0;
  bool follows = false;  // a run of rows, else what was drawn
  DrawnBatch drawn;
  FollowHeader run{};

  uint32_t total_bytes() const override { return bytes; }
  bool gather(uint64_t offset, std::span<std::byte> out, Loans& loans) const override {
    if (follows) return table->gather_rows(run, offset, out, &loans);
    return table->gather(drawn, offset, out, &loans);
  }
};

SampleReply& reply_from(const Table& table, uint64_t bytes, bool follows, Slot& slot) {
  if (!slot.source) slot.source = std::make_unique<SampleReply>();
  auto& reply = static_cast<SampleReply&>(*slot.source);  // the sample lane has no other kind
  reply.table = &table;
  reply.bytes = static_cast<uint32_t>(bytes);
  reply.follows = follows;
  slot.use_source = true;
  return reply;
}

}  // namespace

DrawnBatch& reply_with_items(const Table& table, uint32_t items, Slot& slot) {
  slot.work = items / Sessions::kUnitItems;
  return reply_from(table, table.layout().total_bytes(items), false, slot).drawn;
}

// So short that it is kept: what it says of the rows' ages holds, however long it takes.
static void reply_with_references(Table& table, uint32_t batch, uint64_t from, Slot& slot) {
  DrawnBatch& drawn = reply_with_items(table, batch, slot);
  slot.use_source = false;
  DRLNET_ASSERT(table.draw_references(batch, from, drawn));
  const SampleLayout& layout = table.layout();
  const auto put = [&](uint64_t offset, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    std::memcpy(slot.bytes.data() + offset, bytes.data(), bytes.size());
  };
  slot.bytes.resize(layout.reference_bytes(batch, drawn.slots.size() / std::max(batch, 1u)));
  put(0, std::span(&drawn.header, 1));
  if (batch == 0) return;
  put(layout.keys(batch), drawn.keys);
  put(layout.probabilities(batch), drawn.probabilities);
  put(layout.lengths(batch), drawn.lengths);
  put(layout.references(batch), drawn.slots);
}

void reply_with_rows(const Table& table, const FollowHeader& run, Slot& slot) {
  reply_from(table, table.row_layout().total_bytes(run.count), true, slot).run = run;
}

bool gathers_from(const Table& table, const Slot& slot) {
  return slot.use_source && static_cast<const SampleReply&>(*slot.source).table == &table;
}

uint16_t answer_sample(Table& table, const SampleRequest& request, uint64_t from, uint32_t session,
                       Slot& slot) {
  const uint32_t batch = request.batch;
  // Not so in a server that is one alone once its limiter lets the request go ahead.
  const bool here = table.can_draw(batch);
  const bool by_reference = (request.flags & kReferences) != 0;
  // Items whose rows the client has: what draws nothing must not count as drawn.
  const bool known = !by_reference || batch == 0 || table.has_items_from(from);
  if (const uint64_t least = std::max(batch, request.least); least > 0) {
    const Wait wait = table.may_sample(here && known ? batch : 0, least, session);
    if (wait != Wait::none) return static_cast<uint16_t>(wait);
  }
  if (!here) {
    slot.status = Status::sample_expired;
    encode_error("the items are on other shards", "sample again", slot.bytes);
    return 0;
  }
  if (!known) {
    table.pass_over(batch);
    slot.status = Status::sample_expired;
    encode_error("no item has all of its rows at the client yet", "sample again", slot.bytes);
    return 0;
  }
  if (by_reference) {
    reply_with_references(table, batch, from, slot);
    return 0;
  }
  DrawnBatch& drawn = reply_with_items(table, batch, slot);
  table.draw(batch, drawn);
  if (table.is_queue()) {
    // Drawn items are free to be overwritten, and no later draw finds them: kept whole.
    slot.bytes.resize(table.layout().total_bytes(batch));
    DRLNET_ASSERT(table.gather(drawn, 0, slot.bytes));
    slot.use_source = false;
  }
  return 0;
}

bool Server::refused_without_rows(Slot& slot) const {
  if (!index_only_) return false;
  refuse(slot, Status::config, "the server keeps no rows (--index-only): it only names them",
         "mirror the table (replay.rows = learner), or start the server without --index-only");
  return true;
}

// by_reference: its reply names all rows that an item reaches over, also those that no view shows.
bool Server::refused_as_too_large(const Table& table, uint32_t batch, bool by_reference,
                                  Slot& slot) {
  const uint64_t named = by_reference ? table.spec().item.window() : 0;
  const uint64_t bytes =
      std::max(table.layout().total_bytes(batch), table.layout().reference_bytes(batch, named));
  if (bytes <= kMaxSampleBytes) return false;
  refuse(slot, Status::config, "a batch of over 2 GiB", "ask for fewer items");
  return true;
}

uint16_t Server::sample(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<SampleRequest>();
  const bool has_from = (request.flags & kFrom) != 0;
  const uint64_t from = has_from ? reader.get<uint64_t>() : 0;
  if (!reader.finished() || request.batch > kMaxBatch ||
      (request.flags & ~(kReferences | kFrom)) != 0) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  const bool by_reference = (request.flags & kReferences) != 0;
  Table* table = table_for(request.table, slot);
  if (table == nullptr || refused_as_too_large(*table, request.batch, by_reference, slot)) return 0;
  if (!by_reference && refused_without_rows(slot)) return 0;
  if (by_reference && table->is_queue()) {
    return refuse(slot, Status::config, "a sample by reference of a queue, whose rows may be gone",
                  "let the server send its rows: replay.rows = server");
  }
  const uint16_t wait = answer_sample(*table, request, from, peer.connection, slot);
  if (wait != 0) peer.lane(Lane::sample).waits = &table->waits();
  return wait;
}

}  // namespace drlnet
