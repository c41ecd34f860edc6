// Addresses on an Ethernet link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace drlnet::link {

struct MacAddress {
  std::array<uint8_t, 6> bytes{};
  bool operator==(const MacAddress&) const = default;
  bool multicast() const { return (bytes[0] & 1) != 0; }
};
constexpr MacAddress kBroadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

// IPv4 as ::ffff:a.b.c.d, so that one type serves both.
struct IpAddress {
  std::array<uint8_t, 16> bytes{};
  bool operator==(const IpAddress&) const = default;
  bool v4() const {
    constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(bytes.data(), kMapped.data(), kMapped.size()) == 0;
  }
  bool one_host() const;     // neither unspecified nor a group's nor a broadcast's
  std::string text() const;  // "10.7.0.2", "fd00::2"
  static std::optional<IpAddress> parse(std::string_view text);
  static IpAddress from_v4(uint32_t host_order);
  static IpAddress from_v4_bytes(const void* network_order);  // reads 4
};

// An address with the length of its network's prefix, as "10.7.0.2/24" or "fd00::2/64"; without a
// length, /24 or /64.
struct Subnet {
  IpAddress address;
  uint8_t prefix_bits = 0;  // of the family: 0 to 32, or 0 to 128
  bool operator==(const Subnet&) const = default;
  bool contains(const IpAddress& other) const;
  static std::optional<Subnet> parse(std::string_view text);
};

}  // namespace drlnet::link
