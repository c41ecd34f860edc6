// Params as a server holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace drlnet {

// One published version. Shared by its readers, so that a newer one does not disturb a fetch.
struct Params {
  uint64_t version = 0;
  std::vector<std::byte> bytes;
};

}  // namespace drlnet
