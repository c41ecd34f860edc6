#include "replay/streams.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/world.h"

namespace drlnet {
namespace {

// Its holder is gone for so long that any client may have it.
bool forsaken(const Stream& stream, uint64_t now_ns) {
  return stream.leased && stream.holder == 0 &&
         now_ns - stream.orphaned_at_ns > Streams::kOrphanGraceNs;
}

}  // namespace

Streams::Streams(uint32_t maximum, std::function<void(Stream&)> ended)
    : maximum_(maximum), ended_(std::move(ended)) {}

Stream* Streams::choose(uint64_t now_ns, uint64_t most) {
  while (lowest_free_ < streams_.size() && streams_[lowest_free_].leased) ++lowest_free_;
  if (lowest_free_ < streams_.size()) return &streams_[lowest_free_];
  if (streams_.size() < std::min<uint64_t>(maximum_, most)) return &streams_.emplace_back();
  for (size_t looked = 0; looked < streams_.size(); ++looked) {
    next_orphan_ = (next_orphan_ + 1) % streams_.size();
    Stream& stream = streams_[next_orphan_];
    if (!forsaken(stream, now_ns)) continue;
    ended_(stream);
    --leased_;
    return &stream;
  }
  return nullptr;
}

void Streams::give_to(Stream& stream, uint64_t holder) {
  if (stream.holder == holder) return;
  if (stream.holder != 0) {
    const auto former = held_.find(stream.holder);
    std::erase(former->second, ordinal_of(stream));
    if (former->second.empty()) held_.erase(former);
  }
  stream.holder = holder;
  if (holder != 0) held_[holder].push_back(ordinal_of(stream));
}

Error Streams::full(uint32_t count, uint32_t held) const {
  const std::string all = std::to_string(maximum_);
  return {Status::server_full,
          held == maximum_ ? "all " + all +
                                 " streams of the table are leased: its capacity holds two windows "
                                 "of each"
                           : std::to_string(count) + " streams, where the table has room for " +
                                 std::to_string(maximum_ - held) +
                                 ": its capacity holds two windows of each of " + all,
          "use fewer environments or a larger capacity, or wait a minute for those of actors that "
          "died"};
}

uint32_t Streams::held_count(uint64_t now_ns) const {
  return static_cast<uint32_t>(std::ranges::count_if(
      streams_, [&](const Stream& stream) { return stream.leased && !forsaken(stream, now_ns); }));
}

bool Streams::has_room(uint32_t count, uint64_t most, uint64_t now_ns) const {
  return uint64_t{leased_} + count <= most || uint64_t{held_count(now_ns)} + count <= most;
}

void Streams::require_room(uint32_t count, uint64_t now_ns) const {
  if (!has_room(count, maximum_, now_ns)) throw full(count, held_count(now_ns));
}

Lease Streams::lease(uint64_t holder, uint64_t now_ns, uint64_t most) {
  Stream* stream = choose(now_ns, most);
  if (stream == nullptr) throw full(1, maximum_);
  const uint32_t epoch = stream->epoch + 1;
  *stream = Stream{.epoch = epoch, .leased = true, .token = random_secret()};
  give_to(*stream, holder);
  ++leased_;
  return describe(*stream);
}

Lease Streams::resume(uint32_t ordinal, uint64_t token, uint64_t holder) {
  if (ordinal >= streams_.size() || !streams_[ordinal].leased || streams_[ordinal].token != token) {
    throw Error(Status::unknown_lease,
                "the lease of stream " + std::to_string(ordinal) + " is not held any more",
                "lease a new stream");
  }
  give_to(streams_[ordinal], holder);
  return describe(streams_[ordinal]);
}

bool Streams::release(uint32_t ordinal, uint32_t epoch, uint64_t token) {
  Stream* stream = find(ordinal, epoch, token);
  if (stream == nullptr) return false;
  ended_(*stream);
  give_to(*stream, 0);
  *stream = Stream{.epoch = epoch};
  --leased_;
  lowest_free_ = std::min<size_t>(lowest_free_, ordinal);
  return true;
}

void Streams::orphan(uint64_t holder, uint64_t now_ns) {
  const auto held = held_.find(holder);
  if (held == held_.end()) return;
  for (const uint32_t ordinal : held->second) {
    streams_[ordinal].holder = 0;
    streams_[ordinal].orphaned_at_ns = now_ns;
  }
  held_.erase(held);
}

Stream* Streams::find(uint32_t ordinal, uint32_t epoch, uint64_t token, uint64_t holder) {
  Stream* stream = find(ordinal, epoch);
  if (stream == nullptr || stream->token != token) return nullptr;
  if (stream->holder == 0) give_to(*stream, holder);
  return stream;
}

Stream* Streams::find(uint32_t ordinal, uint32_t epoch) {
  if (ordinal >= streams_.size()) return nullptr;
  Stream& stream = streams_[ordinal];
  return stream.leased && stream.epoch == epoch ? &stream : nullptr;
}

void Streams::save(std::vector<SavedStream>& saved) const {
  saved.clear();
  for (const Stream& stream : streams_) {
    saved.push_back({.token = stream.token,
                     .next_step = stream.next_step,
                     .first_number = stream.first_number,
                     .last_number = stream.last_number,
                     .epoch = stream.epoch,
                     .since_first = stream.since_first,
                     .leased = stream.leased,
                     .open = stream.open});
  }
}

void Streams::restore(const std::vector<SavedStream>& saved) {
  streams_.clear();
  held_.clear();
  leased_ = 0;
  for (const SavedStream& one : saved) {
    streams_.push_back({.epoch = one.epoch,
                        .leased = one.leased != 0,
                        .token = one.token,
                        .next_step = one.next_step,
                        .orphaned_at_ns = now_ns(),
                        .first_number = one.first_number,
                        .last_number = one.last_number,
                        .since_first = one.since_first,
                        .open = one.open != 0});
    leased_ += one.leased != 0;
  }
  lowest_free_ = 0;
}

uint32_t Streams::orphaned_count() const {
  return static_cast<uint32_t>(
      std::count_if(streams_.begin(), streams_.end(),
                    [](const Stream& stream) { return stream.leased && stream.holder == 0; }));
}

Lease Streams::describe(const Stream& stream) const {
  return {ordinal_of(stream), stream.epoch, stream.token, stream.next_step};
}

}  // namespace drlnet
