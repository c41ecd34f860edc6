// What the files of packet.h share: fields of headers, and the parts of a frame.
#pragma once

#include "transport/link/bytes.h"
#include "transport/link/packet.h"

namespace drlnet::link {

constexpr uint16_t kTypeIpv4 = 0x0800, kTypeArp = 0x0806, kTypeIpv6 = 0x86dd;
constexpr uint8_t kProtocolIcmp = 1, kProtocolUdp = 17, kProtocolIcmpv6 = 58;
constexpr uint8_t kHopLimit = 64;
// In neighbour discovery: what has passed a router has another (RFC 4861, section 7.1).
constexpr uint8_t kHopLimitOfLink = 255;
constexpr size_t kIcmpBytes = 8;
constexpr uint8_t kIcmpEchoReply = 0, kIcmpEcho = 8, kIcmpv6Echo = 128, kIcmpv6EchoReply = 129;
constexpr uint8_t kNeighbourSolicitation = 135, kNeighbourAdvertisement = 136;

inline bool dropped(PacketDrop& drop, PacketDrop why) {
  drop = why;
  return false;
}

inline MacAddress load_mac(const std::byte* from) {
  MacAddress mac;
  std::memcpy(mac.bytes.data(), from, sizeof mac.bytes);
  return mac;
}
inline IpAddress load_ip(const std::byte* from, bool v4) {
  if (v4) return IpAddress::from_v4_bytes(from);
  IpAddress ip;
  std::memcpy(ip.bytes.data(), from, sizeof ip.bytes);
  return ip;
}
inline void store_mac(std::byte* to, const MacAddress& mac) {
  std::memcpy(to, mac.bytes.data(), sizeof mac.bytes);
}
inline void store_ip(std::byte* to, const IpAddress& ip, bool v4) {
  std::memcpy(to, v4 ? &ip.bytes[12] : ip.bytes.data(), v4 ? 4 : 16);
}

// The sum of the pseudo-header of UDP and ICMPv6 (RFC 768, RFC 8200 section 8.1).
inline Checksum pseudo_header(const IpAddress& from, const IpAddress& to, bool v4, uint8_t protocol,
                              size_t bytes) {
  Checksum sum;
  if (v4) {
    sum.add_short<4>(&from.bytes[12]);
    sum.add_short<4>(&to.bytes[12]);
  } else {
    sum.add_short<16>(from.bytes.data());
    sum.add_short<16>(to.bytes.data());
  }
  sum.add(static_cast<uint16_t>(protocol));
  sum.add(static_cast<uint16_t>(bytes));
  return sum;
}

// What the IP header said of a datagram: its addresses stand in packet.path already.
struct IpPayload {
  std::span<const std::byte> bytes;
  bool v4;
  uint8_t protocol, hop_limit;
};

// packet.path holds the addresses of the Ethernet header. True, or false and `drop`.
bool parse_arp(std::span<const std::byte> frame, Packet& packet, PacketDrop& drop);
bool parse_icmp(const IpPayload& ip, Checksums checksums, Packet& packet, PacketDrop& drop);

// Write the headers of those layers and return their length.
size_t write_ethernet(std::byte* frame, const Host& from, const Host& to, uint16_t type);
size_t write_ip(std::byte* header, const IpAddress& from, const IpAddress& to, uint8_t protocol,
                uint8_t hop_limit, size_t payload_bytes);

}  // namespace drlnet::link
