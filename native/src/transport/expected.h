// Frames that may come next, so that a transport which copies them anyway copies each to where it
// belongs, once instead of twice.
#pragma once

#include <cstddef>
#include <span>

#include "base/function_ref.h"

namespace drlnet {

struct Expected {
  struct Frame {
    // Where the bytes behind the head go, one part behind another.
    std::span<const std::span<std::byte>> parts;
    size_t bytes = 0;  // of them all
  };
  size_t head_bytes = 0;          // of each frame
  std::span<const Frame> frames;  // in their order
  // Whether a frame with that head is frames[index].
  FunctionRef<bool(size_t index, std::span<const std::byte> head)> is;
};

}  // namespace drlnet
