// Ethernet frames: what passes lies within its frame, and whatever is answered is a good frame.
#include "base/assert.h"
#include "fuzz.h"
#include "transport/link/headers.h"

namespace drlnet::fuzz {
namespace {

using namespace link;

Host host(bool v4, uint8_t number) {
  IpAddress ip = IpAddress::from_v4(0x0a070000u + number);
  if (!v4) ip = {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
  return {{{2, 0, 0, 0, 0, number}}, ip};
}

Bytes datagram(bool v4) {
  constexpr size_t kPayloadBytes = 40;
  Bytes frame(udp_header_bytes(v4) + kPayloadBytes);
  write_udp_headers(&frame[udp_header_bytes(v4)], kPayloadBytes,
                    {host(v4, 2), host(v4, 1), 40000, 7447}, Checksums::full);
  return frame;
}

// A datagram made a ping.
Bytes ping(bool v4) {
  Bytes frame = datagram(v4);
  const Host from = host(v4, 2), to = host(v4, 1);
  const size_t bytes = frame.size() - udp_header_bytes(v4) + kUdpBytes;
  std::byte* icmp = &frame[frame.size() - bytes];
  const uint8_t protocol = v4 ? kProtocolIcmp : kProtocolIcmpv6;
  write_ip(&frame[kEthernetBytes], from.ip, to.ip, protocol, kHopLimit, bytes);
  store8(icmp, v4 ? kIcmpEcho : kIcmpv6Echo);
  store8(icmp + 1, 0);
  store16(icmp + 2, 0);
  Checksum sum = v4 ? Checksum() : pseudo_header(from.ip, to.ip, false, protocol, bytes);
  sum.add(icmp, bytes);
  store_raw16(icmp + 2, sum.complement());
  return frame;
}

void check(std::span<const std::byte> frame, Checksums checksums) {
  Packet packet;
  PacketDrop drop = PacketDrop::count;
  if (!parse_packet(frame, checksums, packet, drop)) {
    DRLNET_ASSERT(packet_drop_name(drop) != nullptr);
    return;
  }
  if (!packet.payload.empty()) {
    DRLNET_ASSERT(packet.payload.data() >= frame.data() &&
                  packet.payload.data() + packet.payload.size() <= frame.data() + frame.size());
  }
  DRLNET_ASSERT(packet.path.from.ip.v4() == packet.path.to.ip.v4());
  DRLNET_ASSERT(!packet.path.from.mac.multicast());
  if (packet.kind != PacketKind::question) {
    DRLNET_ASSERT(packet.path.from.ip.one_host());
    Bytes nothing(kMaxAnswerBytes);
    DRLNET_ASSERT(write_answer(packet, {packet.path.to.mac, packet.path.to.ip}, nothing) == 0);
    return;
  }
  // Every question is answered, in a room that ends where the answer may.
  Host self{packet.path.to.mac, packet.path.to.ip};
  if (self.mac.multicast()) self.mac = host(true, 1).mac;
  Bytes reply(std::min(frame.size() + 64, kMaxAnswerBytes));
  const size_t length = write_answer(packet, self, reply);
  DRLNET_ASSERT(length <= reply.size());
  if (length == 0) return;
  reply.resize(length);
  reply.shrink_to_fit();
  Packet read;
  if (self.ip.one_host() && !parse_packet(reply, Checksums::full, read, drop)) {
    DRLNET_ASSERT(drop == PacketDrop::not_udp && !packet.payload.empty());  // a pong
  }
}

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> list;
  for (const bool v4 : {true, false}) {
    const Host self = host(v4, 1), other = host(v4, 2);
    list.push_back(datagram(v4));
    list.push_back(ping(v4));
    Bytes question(kMaxAnswerBytes), answer(kMaxAnswerBytes);
    question.resize(write_question(other, self.ip, question));
    list.push_back(question);
    Packet packet;
    PacketDrop drop;
    DRLNET_ASSERT(parse_packet(question, Checksums::full, packet, drop));
    answer.resize(write_answer(packet, self, answer));
    list.push_back(answer);
  }
  for (const Bytes& frame : list) {
    Packet packet;
    PacketDrop drop;
    DRLNET_ASSERT(parse_packet(frame, Checksums::full, packet, drop));
  }
  return list;
}

void run(std::span<const std::byte> input) {
  const Bytes frame = exact(input);
  for (const Checksums checksums : {Checksums::full, Checksums::headers, Checksums::none}) {
    check(frame, checksums);
  }
}

}  // namespace drlnet::fuzz
