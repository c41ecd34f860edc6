// A transport that places what is expected, whatever it wraps; and where that is not what comes,
// leaves other bytes there, as recv_placed() allows.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "transport/forwarding.h"

namespace drlnet::test {

class PlacingTransport final : public ForwardingTransport {
 public:
  explicit PlacingTransport(std::unique_ptr<Transport> inner)
      : ForwardingTransport(std::move(inner)) {}

  std::span<const RxFrame> recv_placed(const Expected& expected) override {
    for (const Expected::Frame& frame : expected.frames) {
      for (const auto part : frame.parts) std::ranges::fill(part, std::byte{0xDB});
    }
    const auto burst = inner().recv_burst();
    frames_.assign(burst.begin(), burst.end());
    size_t next = 0;
    for (RxFrame& frame : frames_) {
      if (next == expected.frames.size()) break;
      const auto& [parts, bytes] = expected.frames[next];
      if (frame.data.size() != expected.head_bytes + bytes ||
          !expected.is(next, frame.data.first(expected.head_bytes))) {
        break;
      }
      auto from = frame.data.subspan(expected.head_bytes);
      for (const auto part : parts) {
        std::ranges::copy(from.first(part.size()), part.begin());
        from = from.subspan(part.size());
      }
      frame.data = frame.data.first(expected.head_bytes);
      frame.placed_bytes = bytes;
      ++next;
    }
    placed_ += next;
    return frames_;
  }
  size_t placed_most_bytes() const override { return 65536; }

  size_t placed() const { return placed_; }  // frames

 private:
  std::vector<RxFrame> frames_;
  size_t placed_ = 0;
};

}  // namespace drlnet::test
