#include "transport/link/packet.h"

#include <iterator>

#include "base/assert.h"
#include "transport/link/headers.h"

namespace drlnet::link {
namespace {

bool parse_udp(const IpPayload& ip, Checksums checksums, Packet& packet, PacketDrop& drop) {
  if (ip.bytes.size() < kUdpBytes) return dropped(drop, PacketDrop::truncated);
  const std::byte* udp = ip.bytes.data();
  const size_t length = load16(udp + 4);
  if (length < kUdpBytes) return dropped(drop, PacketDrop::malformed);
  if (length > ip.bytes.size()) return dropped(drop, PacketDrop::truncated);
  // Zero: the sender computed none, which IPv6 does not allow (RFC 8200, section 8.1).
  if (load16(udp + 6) == 0) {
    if (!ip.v4) return dropped(drop, PacketDrop::bad_checksum);
  } else if (checksums == Checksums::full) {
    Checksum sum =
        pseudo_header(packet.path.from.ip, packet.path.to.ip, ip.v4, kProtocolUdp, length);
    sum.add(udp, length);
    if (!sum.holds()) return dropped(drop, PacketDrop::bad_checksum);
  }
  packet.kind = PacketKind::datagram;
  packet.path.from_port = load16(udp);
  packet.path.to_port = load16(udp + 2);
  packet.payload = ip.bytes.subspan(kUdpBytes, length - kUdpBytes);
  return true;
}

bool parse_ipv4(std::span<const std::byte> frame, Packet& packet, IpPayload& payload,
                PacketDrop& drop) {
  if (frame.size() < kEthernetBytes + kIpv4Bytes) return dropped(drop, PacketDrop::truncated);
  const auto room = frame.subspan(kEthernetBytes);
  const std::byte* ip = room.data();
  const size_t header = (load8(ip) & 15u) * 4, total = load16(ip + 2);
  if (load8(ip) >> 4 != 4 || header < kIpv4Bytes || total < header) {
    return dropped(drop, PacketDrop::malformed);
  }
  if (total > room.size()) return dropped(drop, PacketDrop::truncated);
  Checksum sum;
  sum.add_short<kIpv4Bytes>(ip);
  if (header > kIpv4Bytes) sum.add(ip + kIpv4Bytes, header - kIpv4Bytes);
  if (!sum.holds()) return dropped(drop, PacketDrop::bad_checksum);
  constexpr unsigned kMoreFragmentsAndOffset = 0x3fff;
  if (load16(ip + 6) & kMoreFragmentsAndOffset) return dropped(drop, PacketDrop::fragment);
  packet.path.from.ip = IpAddress::from_v4_bytes(ip + 12);
  packet.path.to.ip = IpAddress::from_v4_bytes(ip + 16);
  payload = {room.subspan(header, total - header), true, load8(ip + 9), load8(ip + 8)};
  return true;
}

bool parse_ipv6(std::span<const std::byte> frame, Packet& packet, IpPayload& payload,
                PacketDrop& drop) {
  if (frame.size() < kEthernetBytes + kIpv6Bytes) return dropped(drop, PacketDrop::truncated);
  const auto room = frame.subspan(kEthernetBytes);
  const std::byte* ip = room.data();
  if (load8(ip) >> 4 != 6) return dropped(drop, PacketDrop::malformed);
  const size_t length = load16(ip + 4);
  if (length > room.size() - kIpv6Bytes) return dropped(drop, PacketDrop::truncated);
  constexpr uint8_t kProtocolFragment = 44;
  if (load8(ip + 6) == kProtocolFragment) return dropped(drop, PacketDrop::fragment);
  packet.path.from.ip = load_ip(ip + 8, false);
  packet.path.to.ip = load_ip(ip + 24, false);
  // These stand for IPv4 within a host and never travel (RFC 4038, section 4.2): they would pass
  // for the IPv4 host here.
  if (packet.path.from.ip.v4() || packet.path.to.ip.v4()) {
    return dropped(drop, PacketDrop::malformed);
  }
  payload = {room.subspan(kIpv6Bytes, length), false, load8(ip + 6), load8(ip + 7)};
  return true;
}

}  // namespace

const char* packet_drop_name(PacketDrop drop) {
  constexpr const char* kNames[] = {"truncated", "not_ip",   "not_udp",
                                    "malformed", "fragment", "bad_checksum"};
  static_assert(std::size(kNames) == static_cast<size_t>(PacketDrop::count));
  DRLNET_ASSERT(drop < PacketDrop::count);
  return kNames[static_cast<size_t>(drop)];
}

bool parse_packet(std::span<const std::byte> frame, Checksums checksums, Packet& packet,
                  PacketDrop& drop) {
  if (frame.size() < kEthernetBytes) return dropped(drop, PacketDrop::truncated);
  packet.path.to.mac = load_mac(frame.data());
  packet.path.from.mac = load_mac(frame.data() + 6);
  if (packet.path.from.mac.multicast()) return dropped(drop, PacketDrop::malformed);
  const uint16_t type = load16(frame.data() + 12);
  IpPayload ip;
  if (type == kTypeIpv4) {
    if (!parse_ipv4(frame, packet, ip, drop)) return false;
  } else if (type == kTypeIpv6) {
    if (!parse_ipv6(frame, packet, ip, drop)) return false;
  } else if (type == kTypeArp) {
    return parse_arp(frame, packet, drop);
  } else {
    return dropped(drop, PacketDrop::not_ip);
  }
  if (ip.protocol == kProtocolUdp) {
    // From no host that could be answered: DHCP's questions, or a forgery.
    if (!packet.path.from.ip.one_host()) return dropped(drop, PacketDrop::not_udp);
    return parse_udp(ip, checksums, packet, drop);
  }
  return parse_icmp(ip, checksums, packet, drop);
}

size_t write_ethernet(std::byte* frame, const Host& from, const Host& to, uint16_t type) {
  store_mac(frame, to.mac);
  store_mac(frame + 6, from.mac);
  store16(frame + 12, type);
  return kEthernetBytes;
}

size_t write_ip(std::byte* header, const IpAddress& from, const IpAddress& to, uint8_t protocol,
                uint8_t hop_limit, size_t payload_bytes) {
  if (!from.v4()) {
    DRLNET_ASSERT(payload_bytes <= 0xffff);
    store16(header, 0x6000);  // version; traffic class and flow label are 0
    store16(header + 2, 0);
    store16(header + 4, static_cast<uint16_t>(payload_bytes));
    store8(header + 6, protocol);
    store8(header + 7, hop_limit);
    store_ip(header + 8, from, false);
    store_ip(header + 24, to, false);
    return kIpv6Bytes;
  }
  DRLNET_ASSERT(kIpv4Bytes + payload_bytes <= 0xffff);
  constexpr uint16_t kDoNotFragment = 0x4000;
  store16(header, 0x4500);  // version and length; type of service is 0
  store16(header + 2, static_cast<uint16_t>(kIpv4Bytes + payload_bytes));
  store16(header + 4, 0);  // no identification: what is never fragmented needs none (RFC 6864)
  store16(header + 6, kDoNotFragment);
  store8(header + 8, hop_limit);
  store8(header + 9, protocol);
  store16(header + 10, 0);
  store_ip(header + 12, from, true);
  store_ip(header + 16, to, true);
  Checksum sum;
  sum.add_short<kIpv4Bytes>(header);
  store_raw16(header + 10, sum.complement());
  return kIpv4Bytes;
}

void write_udp_headers(std::byte* payload, size_t payload_bytes, const UdpPath& path,
                       Checksums checksums, const Loans& loans) {
  const bool v4 = path.from.ip.v4();
  DRLNET_ASSERT(path.to.ip.v4() == v4);
  const size_t length = kUdpBytes + payload_bytes;
  std::byte* frame = payload - udp_header_bytes(v4);
  std::byte* udp = payload - kUdpBytes;
  write_ethernet(frame, path.from, path.to, v4 ? kTypeIpv4 : kTypeIpv6);
  write_ip(frame + kEthernetBytes, path.from.ip, path.to.ip, kProtocolUdp, kHopLimit, length);
  store16(udp, path.from_port);
  store16(udp + 2, path.to_port);
  store16(udp + 4, static_cast<uint16_t>(length));
  store16(udp + 6, 0);
  if (v4 && checksums == Checksums::none) return;
  Checksum sum = pseudo_header(path.from.ip, path.to.ip, v4, kProtocolUdp, length);
  const std::byte* next = udp;
  for (const Loan& loan : loans.all()) {
    sum.add(next, static_cast<size_t>(loan.place - next));
    sum.add(loan.from, loan.bytes);
    next = loan.place + loan.bytes;
  }
  sum.add(next, static_cast<size_t>(payload + payload_bytes - next));
  // Zero would mean that there is none; 0xffff is the same number.
  const uint16_t checksum = sum.complement();
  store_raw16(udp + 6, checksum == 0 ? 0xffff : checksum);
}

}  // namespace drlnet::link
