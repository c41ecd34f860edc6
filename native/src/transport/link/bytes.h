// Numbers in the byte order of the network, at any address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/link/checksum.h"

namespace drlnet::link {

inline uint8_t load8(const std::byte* from) { return std::to_integer<uint8_t>(*from); }
inline uint16_t load16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return network_order(value);
}
inline void store8(std::byte* to, uint8_t value) { *to = std::byte{value}; }
// For values that lie in network order already, such as a checksum.
inline void store_raw16(std::byte* to, uint16_t value) { std::memcpy(to, &value, sizeof value); }
inline void store16(std::byte* to, uint16_t value) { store_raw16(to, network_order(value)); }

}  // namespace drlnet::link
