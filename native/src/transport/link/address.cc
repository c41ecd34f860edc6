#include "transport/link/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace drlnet::link {
namespace {

constexpr std::array<uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

bool IpAddress::one_host() const {
  if (v4()) {
    uint32_t word;
    std::memcpy(&word, &bytes[12], sizeof word);
    return (bytes[12] & 0xf0) != 0xe0 && word != 0 && word != ~uint32_t{0};
  }
  return bytes[0] != 0xff && *this != IpAddress{};
}

std::string IpAddress::text() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (v4()) {
    inet_ntop(AF_INET, &bytes[12], text, sizeof text);
  } else {
    inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  }
  return text;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string copy(text);
  IpAddress address;
  // inet_pton stops at a zero byte, which a text of that length may hold.
  if (copy.find('\0') != std::string::npos) return {};
  std::array<uint8_t, 4> v4;
  if (inet_pton(AF_INET, copy.c_str(), v4.data()) == 1) return from_v4_bytes(v4.data());
  if (inet_pton(AF_INET6, copy.c_str(), address.bytes.data()) == 1) return address;
  return {};
}

IpAddress IpAddress::from_v4(uint32_t host_order) {
  const uint32_t network_order = htonl(host_order);
  return from_v4_bytes(&network_order);
}

IpAddress IpAddress::from_v4_bytes(const void* network_order) {
  IpAddress address;
  std::memcpy(address.bytes.data(), kMappedPrefix.data(), kMappedPrefix.size());
  std::memcpy(&address.bytes[12], network_order, 4);
  return address;
}

bool Subnet::contains(const IpAddress& other) const {
  if (address.v4() != other.v4()) return false;
  const size_t bits = prefix_bits + (address.v4() ? 96u : 0u);
  const size_t whole = bits / 8;
  if (!std::equal(other.bytes.begin(), other.bytes.begin() + whole, address.bytes.begin())) {
    return false;
  }
  const int rest = static_cast<int>(bits % 8);
  return rest == 0 || (address.bytes[whole] ^ other.bytes[whole]) >> (8 - rest) == 0;
}

std::optional<Subnet> Subnet::parse(std::string_view text) {
  const size_t slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) return {};
  Subnet subnet{*address, static_cast<uint8_t>(address->v4() ? 24 : 64)};
  if (slash == std::string_view::npos) return subnet;
  const std::string_view digits = text.substr(slash + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), subnet.prefix_bits);
  if (error != std::errc{} || end != digits.data() + digits.size()) return {};
  if (subnet.prefix_bits > (address->v4() ? 32 : 128)) return {};
  return subnet;
}

}  // namespace drlnet::link
