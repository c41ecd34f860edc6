#include "session/server/peer.h"

#include <algorithm>
#include <string_view>

#include "base/printable.h"

namespace drlnet {
namespace {

constexpr uint32_t kPageBytes = 4096;  // larger ones of other machines are counted as these

uint32_t body_bytes(size_t lane) {
  return lane == static_cast<size_t>(Lane::sample) ? kMaxSampleRequestBytes : kMaxRequestBytes;
}

// Readable on a terminal, and as one part of a metric's dotted name: without dots.
std::string shown(std::string_view name) {
  std::string text = printable(name);
  std::ranges::replace(text, '.', '_');
  return text;
}

}  // namespace

Peer::Peer(const Hello& hello)
    : client(hello.client),
      nonce(hello.nonce),
      name(shown({hello.name, std::find(hello.name, hello.name + sizeof hello.name, '\0')})) {
  for (size_t i = 0; i < kLanes; ++i) {
    lanes[i].next = std::max<uint64_t>(hello.first_request[i], 1);
    lanes[i].slots.resize(kLaneWindow[i]);
    lanes[i].window = kLaneWindow[i];
    for (uint32_t bit = 0; bit < std::min(kLaneWindow[i], 32u); ++bit) {
      if ((hello.finished[i] >> bit) & 1) {
        Slot& slot = lanes[i].slot(lanes[i].next + bit);
        slot.request = lanes[i].next + bit;
        slot.state = Slot::State::answered;
      }
    }
  }
}

void Peer::map_bodies() {
  size_t total = 0;
  for (size_t i = 0; i < kLanes; ++i) total += size_t{kLaneWindow[i]} * body_bytes(i);
  bodies = Mapping(total, Mapping::Pages::small, "one more client of the server",
                   "end some of its clients, free memory, or raise the server's limit (ulimit -v)");
  std::byte* at = bodies.data();
  for (size_t i = 0; i < kLanes; ++i) {
    for (Slot& slot : lanes[i].slots) {
      slot.body = {at, body_bytes(i)};
      at += body_bytes(i);
    }
  }
}

uint64_t Peer::hold(Slot& slot, uint32_t bytes, uint64_t now) {
  if (bytes <= slot.held_bytes) return 0;
  const uint32_t pages = (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  const uint64_t more = pages - slot.held_bytes;
  slot.held_bytes = pages;
  held_bytes += more;
  held_at_ns = now;
  return more;
}

uint64_t Peer::let_go() {
  uint64_t bytes = 0;
  for (LaneState& lane : lanes) {
    for (Slot& slot : lane.slots) {
      const bool idle = slot.state == Slot::State::empty || slot.state == Slot::State::answered;
      if (!idle || slot.held_bytes == 0) continue;
      madvise(slot.body.data(), slot.held_bytes, MADV_DONTNEED);
      bytes += slot.held_bytes;
      slot.held_bytes = 0;
    }
  }
  held_bytes -= bytes;
  return bytes;
}

}  // namespace drlnet
