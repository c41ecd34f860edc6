#include "server/sample.h"

#include "server/reply.h"
#include "server/server.h"

namespace drlnet {
namespace {

// The reply is a descriptor (what was drawn); its rows are gathered when they are sent.
class SampleReply final : public ReplySource {
 public:
  Table* table = nullptr;
  DrawnBatch drawn;

  uint32_t total_bytes() const override {
    return static_cast<uint32_t>(table->layout().total_bytes(drawn.keys.size()));
  }
  bool gather(uint64_t offset, std::span<std::byte> out) const override {
    return table->gather(drawn, offset, out);
  }
};

}  // namespace

uint16_t answer_sample(Table& table, uint32_t batch, Slot& slot) {
  if (const Wait wait = table.may_sample(batch); wait != Wait::none) {
    return static_cast<uint16_t>(wait);
  }
  if (!slot.source) slot.source = std::make_unique<SampleReply>();
  auto& reply = static_cast<SampleReply&>(*slot.source);  // the sample lane has no other kind
  reply.table = &table;
  table.draw(batch, reply.drawn);
  slot.use_source = true;
  return 0;
}

uint16_t Server::sample(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  Reader reader(body);
  const auto request = reader.get<SampleRequest>();
  if (!reader.finished() || request.batch == 0 || request.batch > kMaxBatch) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  Table* table = table_for(request.table, slot);
  if (table == nullptr) return 0;
  if (table->layout().total_bytes(request.batch) > kMaxSampleBytes) {
    return refuse(slot, Status::config, "a batch of over 2 GiB", "ask for fewer items");
  }
  const uint16_t wait = answer_sample(*table, request.batch, slot);
  if (wait == 0) {
    table->look_at(static_cast<SampleReply&>(*slot.source).drawn, sessions_.clock_ns());
  } else {
    peer.lane(Lane::sample).waits = &table->waits();
  }
  return wait;
}

}  // namespace drlnet
