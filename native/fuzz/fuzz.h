// What a target is, and how it reads its input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "wire/codec.h"
#include "wire/messages.h"

namespace drlnet::fuzz {

// A target defines these two. run() must return, whatever the input; what must hold is asserted.
std::vector<Bytes> seeds();
void run(std::span<const std::byte> input);

// A copy that ends where its allocation ends, so that the address sanitizer sees a read beyond it.
inline std::vector<std::byte> exact(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace drlnet::fuzz
