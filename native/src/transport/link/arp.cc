// RFC 826: the MAC addresses of IPv4 hosts.
#include "transport/link/headers.h"
#include "transport/link/questions.h"

namespace drlnet::link {
namespace {

constexpr uint16_t kRequest = 1, kReply = 2;
constexpr uint16_t kEthernet = 1;

size_t write_arp(std::byte* frame, uint16_t operation, const Host& self, const Host& to,
                 const MacAddress& target) {
  std::byte* arp = frame + write_ethernet(frame, self, to, kTypeArp);
  store16(arp, kEthernet);
  store16(arp + 2, kTypeIpv4);
  store8(arp + 4, 6);
  store8(arp + 5, 4);
  store16(arp + 6, operation);
  store_mac(arp + 8, self.mac);
  store_ip(arp + 14, self.ip, true);
  store_mac(arp + 18, target);
  store_ip(arp + 24, to.ip, true);
  return kArpFrameBytes;
}

}  // namespace

bool parse_arp(std::span<const std::byte> frame, Packet& packet, PacketDrop& drop) {
  if (frame.size() < kArpFrameBytes) return dropped(drop, PacketDrop::truncated);
  const std::byte* arp = frame.data() + kEthernetBytes;
  if (load16(arp) != kEthernet || load16(arp + 2) != kTypeIpv4 || load8(arp + 4) != 6 ||
      load8(arp + 5) != 4) {
    return dropped(drop, PacketDrop::malformed);
  }
  const uint16_t operation = load16(arp + 6);
  if (operation != kRequest && operation != kReply) return dropped(drop, PacketDrop::not_udp);
  UdpPath& path = packet.path;
  path.from = {load_mac(arp + 8), load_ip(arp + 14, true)};
  path.to.ip = load_ip(arp + 24, true);
  path.from_port = path.to_port = 0;
  packet.payload = {};
  // A host without an address yet asks whether another has it (RFC 5227, section 2.1.1).
  const bool probe =
      operation == kRequest && path.from.ip == IpAddress::from_v4(0) && path.to.ip.one_host();
  if (path.from.mac.multicast() || !(probe || path.from.ip.one_host())) {
    return dropped(drop, PacketDrop::malformed);
  }
  // A host that asks for its own address makes it known ("gratuitous").
  packet.kind = operation == kReply || path.from.ip == path.to.ip ? PacketKind::neighbour
                                                                  : PacketKind::question;
  return true;
}

size_t write_arp_reply(const Packet& question, const Host& self, std::byte* frame) {
  return write_arp(frame, kReply, self, question.path.from, question.path.from.mac);
}

size_t write_arp_request(const Host& self, const IpAddress& target, std::byte* frame) {
  return write_arp(frame, kRequest, self, {kBroadcast, target}, {});
}

}  // namespace drlnet::link
