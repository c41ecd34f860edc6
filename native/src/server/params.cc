// Params: published in chunks by one client at a time, fetched by clients that have an older
// version.
#include <algorithm>
#include <utility>

#include "server/reply.h"
#include "server/server.h"

namespace drlnet {
namespace {

class ParamsReply final : public ReplySource {
 public:
  FetchReply head{};
  std::shared_ptr<const Params> params;

  uint32_t total_bytes() const override {
    return static_cast<uint32_t>(sizeof head + params->bytes.size());
  }
  bool gather(uint64_t offset, std::span<std::byte> out, Loans& loans) const override {
    if (offset < sizeof head) {
      const size_t n = std::min(out.size(), static_cast<size_t>(sizeof head - offset));
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(&head) + offset, n);
      out = out.subspan(n);
      offset += n;
    }
    if (!out.empty()) {
      loans.put(out.data(), params->bytes.data() + (offset - sizeof head), out.size());
    }
    return true;
  }
};

}  // namespace

uint16_t Server::publish(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto header = reader.get<PublishHeader>();
  const auto chunk = body.subspan(std::min(body.size(), sizeof header));
  std::vector<std::byte>& staged = staged_params_;
  if (!reader.ok() || header.total_bytes > kMaxParamsBytes ||
      header.offset + chunk.size() > header.total_bytes) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  if (header.total_bytes > sessions_.limits().params_bytes) {
    return refuse_beyond(Limit::params_bytes, slot,
                         "params of " + std::to_string(header.total_bytes) +
                             " bytes, where the server takes " +
                             std::to_string(sessions_.limits().params_bytes),
                         "publish less, or raise server.limits.params_bytes");
  }
  if (publisher_ != 0 && publisher_ != peer.client && publisher_is_silent()) {
    ++publishers_replaced_;
    publisher_ = 0;
  }
  if (publisher_ == 0) make_publisher(peer);
  if (publisher_ != peer.client) {
    ++publishes_refused_;
    return refuse(
        slot, Status::another_publisher,
        "the client '" + publisher_name_ + "' publishes params at this server; only one may",
        "end that one, or take its place: drlnet learn --takeover");
  }
  if (header.offset == 0) {
    staged.clear();
    // What is claimed is not yet sent: a false claim must not cost memory.
    staged.reserve(std::min<uint64_t>(header.total_bytes, 16 << 20));
  }
  if (header.offset != staged.size()) {
    return refuse(slot, Status::bad_request, "a chunk of params came out of order",
                  "publish again from the start");
  }
  const bool last = staged.size() + chunk.size() == header.total_bytes;
  if (last && last_params_version() >= params_reserved_) return keeper_->wait(peer, slot);
  staged.insert(staged.end(), chunk.begin(), chunk.end());
  if (!last) {
    reply_with(slot, PublishReply{0});
    return 0;
  }
  auto params = std::make_shared<Params>();
  params->version = last_params_version() + 1;
  params->bytes = std::move(staged);
  staged = {};
  params_ = std::move(params);
  if (shards_) shards_->params_version.store(params_->version, std::memory_order_relaxed);
  for (const OpenTable& open : tables_) {
    open.table->mark(sessions_.clock_ns(), params_->version);
  }
  reply_with(slot, PublishReply{params_->version});
  return 0;
}

uint16_t Server::take_over(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  if (!body.empty()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  if (publisher_ != 0 && publisher_ != peer.client) ++publishers_replaced_;
  make_publisher(peer);
  return 0;
}

bool Server::publisher_is_silent() {
  for (const Peer* peer : sessions_.peers()) {
    if (peer->client == publisher_) {
      return sessions_.clock_ns() > peer->last_heard_ns + kPublisherSilenceNs;
    }
  }
  return true;
}

void Server::make_publisher(const Peer& peer) {
  if (publisher_ != peer.client) staged_params_ = {};  // those of its predecessor
  publisher_ = peer.client;
  publisher_name_ = peer.name;
}

uint16_t Server::fetch(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<FetchRequest>();
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  if (!params_ || params_->version <= request.newer_than) {
    reply_with(slot, FetchReply{params_ ? params_->version : 0, 0});
    return 0;
  }
  auto reply = std::make_unique<ParamsReply>();
  reply->params = params_;
  reply->head = {params_->version, params_->bytes.size()};
  slot.source = std::move(reply);
  slot.use_source = true;
  return 0;
}

}  // namespace drlnet
