// How many bytes may be under way between a client and its server, whatever frames they go in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace drlnet {

// For requests, however many clients share the server's receive buffer and however many were lost.
constexpr uint32_t kMinCreditBytes = 2 * kJumboFrameBytes;
constexpr uint32_t kMaxCreditBytes = 1 << 20;
constexpr uint32_t kFirstWindowBytes = 1 << 16;
constexpr uint32_t kMaxWindowBytes = 1 << 22;
constexpr uint32_t kWindowStepBytes = kJumboFrameBytes / 4;  // by which a window grows
// For a reply: unasked, but for a session's one frame that is longer, and at least.
constexpr uint32_t kUnaskedBytes = 4 * kJumboFrameBytes;

// The longest frame where that many bytes may be under way: the longest of any link only where
// several of them fit, or each would wait for the one before and a buffer be filled by few.
constexpr size_t longest_frame_of(size_t frames, size_t bytes) {
  return frames * kMaxFrameBytes <= bytes ? kMaxFrameBytes : kJumboFrameBytes;
}

// A client's: what it keeps under way of replies, and the longest frame that it tries.
inline uint32_t pull_window_of(const Transport& transport) {
  return static_cast<uint32_t>(
      std::clamp<size_t>(transport.receive_capacity_bytes() / 2, kUnaskedBytes, kMaxWindowBytes));
}
inline size_t longest_frame_to(Transport& transport, const Endpoint& server) {
  return std::min(transport.mtu(server) & ~size_t{7},
                  longest_frame_of(4, pull_window_of(transport)));
}

}  // namespace drlnet
