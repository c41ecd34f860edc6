#include "replay/streams.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/random.h"

namespace drlnet {

Streams::Streams(uint32_t maximum, std::function<void(Stream&)> ended)
    : maximum_(maximum), ended_(std::move(ended)) {}

Stream* Streams::choose(uint64_t now_ns) {
  const auto free = std::find_if(streams_.begin(), streams_.end(),
                                 [](const Stream& stream) { return !stream.leased; });
  if (free != streams_.end()) return &*free;
  if (streams_.size() < maximum_) return &streams_.emplace_back();
  const auto orphan = std::find_if(streams_.begin(), streams_.end(), [&](const Stream& stream) {
    return stream.holder == 0 && now_ns - stream.orphaned_at_ns > kOrphanGraceNs;
  });
  if (orphan == streams_.end()) return nullptr;
  ended_(*orphan);
  return &*orphan;
}

Lease Streams::lease(uint64_t holder, uint64_t now_ns) {
  Stream* stream = choose(now_ns);
  if (stream == nullptr) {
    throw Error(Status::server_full,
                "all " + std::to_string(maximum_) +
                    " streams of the table are leased: its capacity holds two windows of each",
                "use fewer environments or a larger capacity, or wait a minute for those of "
                "actors that died");
  }
  const uint32_t epoch = stream->epoch + 1;
  *stream = Stream{.epoch = epoch, .leased = true, .token = random_secret(), .holder = holder};
  return describe(*stream);
}

Lease Streams::resume(uint32_t ordinal, uint64_t token, uint64_t holder) {
  if (ordinal >= streams_.size() || !streams_[ordinal].leased || streams_[ordinal].token != token) {
    throw Error(Status::unknown_lease,
                "the lease of stream " + std::to_string(ordinal) + " is not held any more",
                "lease a new stream");
  }
  streams_[ordinal].holder = holder;
  return describe(streams_[ordinal]);
}

bool Streams::release(uint32_t ordinal, uint32_t epoch, uint64_t token) {
  Stream* stream = find(ordinal, epoch, token);
  if (stream == nullptr) return false;
  ended_(*stream);
  *stream = Stream{.epoch = epoch};
  return true;
}

void Streams::orphan(uint64_t holder, uint64_t now_ns) {
  for (Stream& stream : streams_) {
    if (!stream.leased || stream.holder != holder) continue;
    stream.holder = 0;
    stream.orphaned_at_ns = now_ns;
  }
}

Stream* Streams::find(uint32_t ordinal, uint32_t epoch, uint64_t token, uint64_t holder) {
  Stream* stream = find(ordinal, epoch);
  if (stream == nullptr || stream->token != token) return nullptr;
  if (stream->holder == 0) stream->holder = holder;
  return stream;
}

Stream* Streams::find(uint32_t ordinal, uint32_t epoch) {
  if (ordinal >= streams_.size()) return nullptr;
  Stream& stream = streams_[ordinal];
  return stream.leased && stream.epoch == epoch ? &stream : nullptr;
}

uint32_t Streams::leased_count() const {
  return static_cast<uint32_t>(std::count_if(streams_.begin(), streams_.end(),
                                             [](const Stream& stream) { return stream.leased; }));
}

uint32_t Streams::orphaned_count() const {
  return static_cast<uint32_t>(
      std::count_if(streams_.begin(), streams_.end(),
                    [](const Stream& stream) { return stream.leased && stream.holder == 0; }));
}

Lease Streams::describe(const Stream& stream) const {
  return {static_cast<uint32_t>(&stream - streams_.data()), stream.epoch, stream.token,
          stream.next_step};
}

}  // namespace drlnet
