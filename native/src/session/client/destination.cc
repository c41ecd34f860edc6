#include "session/client/destination.h"

#include <algorithm>
#include <cstring>

#include "base/streaming_copy.h"

namespace drlnet {
namespace {

// Measured with rows of 7 KB: batches several times as large come sooner when they are written past
// the caches, those of half as much come later.
constexpr size_t kStreamedBytes = size_t{8} << 20;

// Visits the runs that have some of bytes [offset, offset + bytes) of the reply: where those begin
// within the reply and within the run, and how many they are.
template <typename Visit>
void visit_runs(const Places& places, uint64_t offset, size_t bytes, Visit visit) {
  for (const Places::Run& run : places.runs) {
    const Destination to = run.destination();
    const uint64_t begin = std::max(run.offset, offset);
    const uint64_t end = std::min(run.offset + to.reply_bytes(), offset + bytes);
    if (begin < end) visit(to, begin - run.offset, begin - offset, end - begin);
  }
}

}  // namespace

Destination::Destination(std::span<std::byte> memory, std::span<const Repeat> repeats)
    : memory_(memory), repeats_(repeats), reply_bytes_(memory.size()) {
  for (const Repeat& repeat : repeats) reply_bytes_ -= repeat.count * repeat.bytes;
}

Destination::Destination(const Places& places)
    : places_(&places), reply_bytes_(places.reply_bytes) {}

// Batches that are larger than the caches are written past them.
void Destination::put(std::byte* to, const std::byte* from, size_t bytes) const {
  copy_bytes(to, from, bytes, memory_.size() >= kStreamedBytes);
}

// Calls visit(bytes of the range before it, place, bytes, again) for each piece of the reply's
// range that is one in memory.
template <typename Visit>
void Destination::visit(uint64_t offset, size_t bytes, Visit visit) const {
  const uint64_t end = offset + bytes;
  for (uint64_t at = offset; at < end;) {
    uint64_t repeated = 0, next = UINT64_MAX, length = 0;  // bytes so far; the next repeat
    for (const Repeat& repeat : repeats_) {
      const uint64_t passed =
          at < repeat.first ? 0 : std::min((at - repeat.first) / repeat.every + 1, repeat.count);
      repeated += passed * repeat.bytes;
      if (passed == repeat.count) continue;
      next = repeat.first + passed * repeat.every;
      length = repeat.bytes;
      break;
    }
    const uint64_t piece = std::min(end, next) - at;
    const uint64_t begin = next - length;
    visit(at - offset, memory_.data() + at + repeated, piece,
          Again{begin - std::min(begin, at), length});
    at += piece;
  }
}

void Destination::write(uint64_t offset, std::span<const std::byte> reply) const {
  if (places_ != nullptr) {
    visit_runs(*places_, offset, reply.size(),
               [&](const Destination& to, uint64_t in_run, uint64_t at, size_t bytes) {
                 to.write(in_run, reply.subspan(at, bytes));
               });
    return;
  }
  visit(offset, reply.size(), [&](uint64_t at, std::byte* place, size_t bytes, Again again) {
    put(place, reply.data() + at, bytes);
    if (again.begin < bytes) {
      put(place + again.begin + again.distance, reply.data() + at + again.begin,
          bytes - again.begin);
    }
  });
}

void Destination::repeat(uint64_t offset, size_t bytes) const {
  if (places_ != nullptr) {
    visit_runs(*places_, offset, bytes,
               [&](const Destination& to, uint64_t in_run, uint64_t, size_t part) {
                 to.repeat(in_run, part);
               });
    return;
  }
  if (repeats_.empty()) return;
  visit(offset, bytes, [&](uint64_t, std::byte* place, size_t part, Again again) {
    if (again.begin >= part) return;
    std::byte* from = place + again.begin;
    put(from + again.distance, from, part - again.begin);
  });
}

bool Destination::locate(uint64_t offset, size_t bytes,
                         std::vector<std::span<std::byte>>& parts) const {
  size_t located = 0;
  if (places_ != nullptr) {
    bool room = true;
    visit_runs(*places_, offset, bytes,
               [&](const Destination& to, uint64_t in_run, uint64_t, size_t part) {
                 room = room && to.locate(in_run, part, parts);
                 located += part;
               });
    return room && located == bytes;
  }
  visit(offset, bytes, [&](uint64_t, std::byte* place, size_t part, Again) {
    if (parts.size() == parts.capacity()) return;
    parts.emplace_back(place, part);
    located += part;
  });
  return located == bytes;
}

void Destination::read(uint64_t offset, std::span<std::byte> reply) const {
  if (places_ != nullptr) {
    visit_runs(*places_, offset, reply.size(),
               [&](const Destination& to, uint64_t in_run, uint64_t at, size_t bytes) {
                 to.read(in_run, reply.subspan(at, bytes));
               });
    return;
  }
  visit(offset, reply.size(), [&](uint64_t at, const std::byte* place, size_t bytes, Again) {
    std::memcpy(reply.data() + at, place, bytes);
  });
}

}  // namespace drlnet
