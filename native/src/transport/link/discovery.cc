// RFC 4861: the MAC addresses of IPv6 hosts, by ICMPv6.
#include <algorithm>

#include "transport/link/headers.h"
#include "transport/link/questions.h"

namespace drlnet::link {
namespace {

constexpr size_t kFixedBytes = 24;  // type, code, checksum, flags, target
constexpr uint8_t kSourceOption = 1, kTargetOption = 2;
constexpr uint8_t kSolicited = 0x40, kOverride = 0x20;

IpAddress group(std::initializer_list<uint8_t> end) {
  IpAddress ip;
  ip.bytes[0] = 0xff;
  ip.bytes[1] = 0x02;
  std::copy(end.begin(), end.end(), ip.bytes.end() - static_cast<ptrdiff_t>(end.size()));
  return ip;
}
IpAddress all_nodes() { return group({1}); }
IpAddress solicited_node(const IpAddress& ip) {
  return group({1, 0xff, ip.bytes[13], ip.bytes[14], ip.bytes[15]});
}
// RFC 2464, section 7.
MacAddress group_mac(const IpAddress& ip) {
  return {{0x33, 0x33, ip.bytes[12], ip.bytes[13], ip.bytes[14], ip.bytes[15]}};
}

// False when the options are malformed. `mac` stays as it is without the wanted one.
bool read_options(std::span<const std::byte> options, uint8_t wanted, MacAddress& mac,
                  bool& found) {
  found = false;
  while (!options.empty()) {
    const size_t length = options.size() < 2 ? 0 : load8(&options[1]) * size_t{8};
    if (length == 0 || length > options.size()) return false;
    if (load8(&options[0]) == wanted) {
      mac = load_mac(&options[2]);
      found = true;
    }
    options = options.subspan(length);
  }
  return true;
}

size_t write_discovery(std::byte* frame, uint8_t type, uint8_t flags, const Host& self,
                       const Host& to, const IpAddress& target) {
  constexpr size_t kMessageBytes = kFixedBytes + 8;
  std::byte* ip = frame + write_ethernet(frame, self, to, kTypeIpv6);
  std::byte* icmp =
      ip + write_ip(ip, self.ip, to.ip, kProtocolIcmpv6, kHopLimitOfLink, kMessageBytes);
  std::memset(icmp, 0, kMessageBytes);
  store8(icmp, type);
  store8(icmp + 4, flags);
  store_ip(icmp + 8, target, false);
  store8(icmp + 24, type == kNeighbourSolicitation ? kSourceOption : kTargetOption);
  store8(icmp + 25, 1);  // of 8 bytes
  store_mac(icmp + 26, self.mac);
  Checksum sum = pseudo_header(self.ip, to.ip, false, kProtocolIcmpv6, kMessageBytes);
  sum.add(icmp, kMessageBytes);
  store_raw16(icmp + 2, sum.complement());
  return kDiscoveryFrameBytes;
}

}  // namespace

// The checks of RFC 4861, sections 7.1.1 and 7.1.2, but for those on IP's header and the checksum.
bool parse_discovery(std::span<const std::byte> message, Packet& packet, PacketDrop& drop) {
  if (message.size() < kFixedBytes) return dropped(drop, PacketDrop::truncated);
  UdpPath& path = packet.path;
  const bool asks = load8(message.data()) == kNeighbourSolicitation;
  const bool probe = path.from.ip == IpAddress{};  // "has another this address already?"
  const IpAddress target = load_ip(&message[8], false);
  bool has_mac = false;
  if (load8(&message[1]) != 0 || target.v4() || !target.one_host() ||
      !(path.from.ip.one_host() || (asks && probe)) ||
      !read_options(message.subspan(kFixedBytes), asks ? kSourceOption : kTargetOption,
                    path.from.mac, has_mac) ||
      path.from.mac.multicast()) {
    return dropped(drop, PacketDrop::malformed);
  }
  if (asks) {
    if (probe && (has_mac || path.to.ip != solicited_node(target))) {
      return dropped(drop, PacketDrop::malformed);
    }
    path.to.ip = target;
    packet.kind = PacketKind::question;
  } else {
    if (path.to.ip.bytes[0] == 0xff && (load8(&message[4]) & kSolicited)) {
      return dropped(drop, PacketDrop::malformed);
    }
    path.from.ip = target;
    packet.kind = PacketKind::neighbour;
  }
  packet.payload = {};
  return true;
}

std::vector<MacAddress> listened_groups(const IpAddress& self) {
  if (self.v4()) return {};
  return {group_mac(all_nodes()), group_mac(solicited_node(self))};
}

size_t write_advertisement(const Host& self, const Host& to, std::byte* frame) {
  if (to.ip.one_host()) {
    return write_discovery(frame, kNeighbourAdvertisement, kSolicited | kOverride, self, to,
                           self.ip);
  }
  const Host all{group_mac(all_nodes()), all_nodes()};
  return write_discovery(frame, kNeighbourAdvertisement, kOverride, self, all, self.ip);
}

size_t write_solicitation(const Host& self, const IpAddress& target, std::byte* frame) {
  const IpAddress asked = solicited_node(target);
  return write_discovery(frame, kNeighbourSolicitation, 0, self, {group_mac(asked), asked}, target);
}

}  // namespace drlnet::link
