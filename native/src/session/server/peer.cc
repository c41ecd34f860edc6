#include "session/server/peer.h"

#include <algorithm>
#include <string_view>

#include "base/printable.h"

namespace drlnet {
namespace {

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
  size_t total = 0;
  for (size_t i = 0; i < kLanes; ++i) total += size_t{kLaneWindow[i]} * body_bytes(i);
  bodies = std::make_unique_for_overwrite<std::byte[]>(total);
  std::byte* at = bodies.get();
  for (size_t i = 0; i < kLanes; ++i) {
    lanes[i].next = std::max<uint64_t>(hello.first_request[i], 1);
    lanes[i].slots.resize(kLaneWindow[i]);
    lanes[i].window = kLaneWindow[i];
    for (Slot& slot : lanes[i].slots) {
      slot.body = {at, body_bytes(i)};
      at += body_bytes(i);
    }
    for (uint32_t bit = 0; bit < std::min(kLaneWindow[i], 32u); ++bit) {
      if ((hello.finished[i] >> bit) & 1) {
        Slot& slot = lanes[i].slot(lanes[i].next + bit);
        slot.request = lanes[i].next + bit;
        slot.state = Slot::State::answered;
      }
    }
  }
}

}  // namespace drlnet
