// Pings, and which answer a question gets.
#include <algorithm>

#include "transport/link/headers.h"
#include "transport/link/questions.h"

namespace drlnet::link {
namespace {

size_t write_echo_reply(const Packet& ping, const Host& self, std::span<std::byte> reply) {
  const bool v4 = self.ip.v4();
  const Host& to = ping.path.from;
  const auto message = ping.payload;
  const size_t total = kEthernetBytes + (v4 ? kIpv4Bytes : kIpv6Bytes) + message.size();
  if (total > std::min(reply.size(), kMaxAnswerBytes)) return 0;
  std::byte* ip = reply.data() + write_ethernet(reply.data(), self, to, v4 ? kTypeIpv4 : kTypeIpv6);
  const uint8_t protocol = v4 ? kProtocolIcmp : kProtocolIcmpv6;
  std::byte* icmp = ip + write_ip(ip, self.ip, to.ip, protocol, kHopLimit, message.size());
  std::memcpy(icmp, message.data(), message.size());
  store8(icmp, v4 ? kIcmpEchoReply : kIcmpv6EchoReply);
  store16(icmp + 2, 0);
  // Only ICMPv6's checksum covers addresses.
  Checksum sum = v4 ? Checksum() : pseudo_header(self.ip, to.ip, false, protocol, message.size());
  sum.add(icmp, message.size());
  store_raw16(icmp + 2, sum.complement());
  return total;
}

}  // namespace

bool parse_icmp(const IpPayload& ip, Checksums checksums, Packet& packet, PacketDrop& drop) {
  if (ip.protocol != (ip.v4 ? kProtocolIcmp : kProtocolIcmpv6)) {
    return dropped(drop, PacketDrop::not_udp);
  }
  if (ip.bytes.size() < kIcmpBytes) return dropped(drop, PacketDrop::truncated);
  const uint8_t type = load8(ip.bytes.data()), code = load8(ip.bytes.data() + 1);
  const bool echo = type == (ip.v4 ? kIcmpEcho : kIcmpv6Echo);
  const bool discovery =
      !ip.v4 && (type == kNeighbourSolicitation || type == kNeighbourAdvertisement);
  if (!echo && !discovery) return dropped(drop, PacketDrop::not_udp);
  if (checksums == Checksums::full) {
    Checksum sum = ip.v4 ? Checksum()
                         : pseudo_header(packet.path.from.ip, packet.path.to.ip, false,
                                         kProtocolIcmpv6, ip.bytes.size());
    sum.add(ip.bytes.data(), ip.bytes.size());
    if (!sum.holds()) return dropped(drop, PacketDrop::bad_checksum);
  }
  packet.path.from_port = packet.path.to_port = 0;
  if (discovery) {
    if (ip.hop_limit != kHopLimitOfLink) return dropped(drop, PacketDrop::malformed);
    return parse_discovery(ip.bytes, packet, drop);
  }
  if (code != 0 || !packet.path.from.ip.one_host()) return dropped(drop, PacketDrop::malformed);
  packet.kind = PacketKind::question;
  packet.payload = ip.bytes;
  return true;
}

size_t write_answer(const Packet& question, const Host& self, std::span<std::byte> reply) {
  const UdpPath& path = question.path;
  if (question.kind != PacketKind::question || path.to.ip != self.ip) return 0;
  if (!question.payload.empty()) {
    // Not a ping to all: one frame would draw an answer from every host on the link.
    return path.to.mac == self.mac ? write_echo_reply(question, self, reply) : 0;
  }
  if (path.to.mac != self.mac && !path.to.mac.multicast()) return 0;
  const size_t needed = self.ip.v4() ? kArpFrameBytes : kDiscoveryFrameBytes;
  if (reply.size() < needed) return 0;
  return self.ip.v4() ? write_arp_reply(question, self, reply.data())
                      : write_advertisement(self, path.from, reply.data());
}

size_t write_question(const Host& self, const IpAddress& target, std::span<std::byte> frame) {
  const bool v4 = self.ip.v4();
  if (target.v4() != v4 || frame.size() < (v4 ? kArpFrameBytes : kDiscoveryFrameBytes)) return 0;
  return v4 ? write_arp_request(self, target, frame.data())
            : write_solicitation(self, target, frame.data());
}

size_t write_announcement(const Host& self, std::span<std::byte> frame) {
  if (frame.size() < (self.ip.v4() ? kArpFrameBytes : kDiscoveryFrameBytes)) return 0;
  return self.ip.v4() ? write_arp_request(self, self.ip, frame.data())
                      : write_advertisement(self, {}, frame.data());
}

}  // namespace drlnet::link
