#include "server/sample.h"

#include <algorithm>

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
  DrawnBatch drawn;

  uint32_t total_bytes() const override { return bytes; }
  bool gather(uint64_t offset, std::span<std::byte> out, Loans& loans) const override {
    return table->gather(drawn, offset, out, &loans);
  }
};

}  // namespace

DrawnBatch& reply_with_items(const Table& table, uint32_t items, Slot& slot) {
  if (!slot.source) slot.source = std::make_unique<SampleReply>();
  auto& reply = static_cast<SampleReply&>(*slot.source);  // the sample lane has no other kind
  reply.table = &table;
  reply.bytes = static_cast<uint32_t>(table.layout().total_bytes(items));
  slot.use_source = true;
  return reply.drawn;
}

bool gathers_from(const Table& table, const Slot& slot) {
  return slot.use_source && static_cast<const SampleReply&>(*slot.source).table == &table;
}

uint16_t answer_sample(Table& table, const SampleRequest& request, uint32_t session, Slot& slot) {
  const uint32_t batch = request.batch;
  // Not so in a server that is one alone once its limiter lets the request go ahead.
  const bool here = table.can_draw(batch);
  if (const uint64_t least = std::max(batch, request.least); least > 0) {
    const Wait wait = table.may_sample(here ? batch : 0, least, session);
    if (wait != Wait::none) return static_cast<uint16_t>(wait);
  }
  if (!here) {
    slot.status = Status::sample_expired;
    encode_error("the items are on other shards", "sample again", slot.bytes);
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

bool Server::refused_as_too_large(const Table& table, uint32_t batch, Slot& slot) {
  if (table.layout().total_bytes(batch) <= kMaxSampleBytes) return false;
  refuse(slot, Status::config, "a batch of over 2 GiB", "ask for fewer items");
  return true;
}

uint16_t Server::sample(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<SampleRequest>();
  if (!reader.finished() || request.batch > kMaxBatch) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  Table* table = table_for(request.table, slot);
  if (table == nullptr || refused_as_too_large(*table, request.batch, slot)) return 0;
  const uint16_t wait = answer_sample(*table, request, peer.connection, slot);
  if (wait != 0) peer.lane(Lane::sample).waits = &table->waits();
  return wait;
}

}  // namespace drlnet
