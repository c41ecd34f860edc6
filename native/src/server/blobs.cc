#include "server/blobs.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

bool Blobs::takes(std::string_view name, size_t most) const {
  return blobs_.contains(name) || blobs_.size() < most;
}

uint64_t Blobs::put(std::string_view name, std::span<const std::byte> bytes) {
  DRLNET_ASSERT(name.size() <= kMaxNameBytes && bytes.size() <= kMaxBytes);
  Blob& blob = blobs_[std::string(name)];
  bytes_ += bytes.size();
  bytes_ -= blob.bytes.size();
  blob.bytes.assign(bytes.begin(), bytes.end());
  return blob.version = ++version_;
}

void Blobs::restore(std::string name, Blob blob) {
  bytes_ += blob.bytes.size();
  blobs_[std::move(name)] = std::move(blob);
}

void Blobs::go_on_from(uint64_t version, uint64_t incarnation) {
  constexpr unsigned kPutBits = 32;  // of a life
  version_ = std::max(version, (incarnation - 1) << kPutBits);
}

const Blobs::Blob* Blobs::find(std::string_view name) const {
  const auto found = blobs_.find(name);
  return found == blobs_.end() ? nullptr : &found->second;
}

uint16_t Server::put_blob(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto name = reader.text();
  const auto length = reader.get<uint32_t>();
  const auto bytes = reader.take(length);
  if (!reader.finished() || name.empty()) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  if (name.size() > Blobs::kMaxNameBytes || bytes.size() > Blobs::kMaxBytes) {
    return refuse(slot, Status::config,
                  "a blob of " + std::to_string(bytes.size()) + " bytes under a name of " +
                      std::to_string(name.size()),
                  "keep at most " + std::to_string(Blobs::kMaxBytes) + " bytes, under a name of " +
                      std::to_string(Blobs::kMaxNameBytes));
  }
  if (const size_t most = sessions_.limits().blobs; !blobs_.takes(name, most)) {
    return refuse_beyond(Limit::blobs, slot,
                         "the server keeps " + std::to_string(most) + " blobs already",
                         "put one under a name that it has, or raise server.limits.blobs");
  }
  reply_with(slot, PutBlobReply{blobs_.put(name, bytes)});
  return 0;
}

uint16_t Server::get_blob(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto request = reader.get<GetBlobRequest>();
  const auto name = reader.text();
  if (!reader.finished()) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  const Blobs::Blob* blob = blobs_.find(name);
  ByteWriter writer(slot.bytes);
  writer.put(GetBlobReply{blob != nullptr ? blob->version : 0});
  if (blob != nullptr && blob->version > request.newer_than) writer.raw(blob->bytes);
  return 0;
}

}  // namespace drlnet
