// Ethernet frames with IPv4 or IPv6 and UDP, and what a host on such a link must answer: ARP,
// neighbour solicitations, pings. Pure functions over bytes; every length is checked before use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/loans.h"
#include "transport/link/address.h"

namespace drlnet::link {

constexpr size_t kEthernetBytes = 14, kUdpBytes = 8;
constexpr size_t kIpv4Bytes = 20, kIpv6Bytes = 40;  // as we write them: no options, no extensions
constexpr size_t udp_header_bytes(bool v4) {
  return kEthernetBytes + (v4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes;
}
// An answer or a question is never longer than this; a longer ping is not answered.
constexpr size_t kMaxAnswerBytes = 1514;

// A host as its link sees it.
struct Host {
  MacAddress mac;
  IpAddress ip;
};

// What the headers of a datagram say.
struct UdpPath {
  Host from, to;
  uint16_t from_port = 0, to_port = 0;  // host byte order
};

enum class Checksums : uint8_t {
  full,     // computed when sent; IP and UDP verified when received
  headers,  // IPv4's header only: of a UDP checksum that a virtual link left unfinished nothing is
            // known. What is sent is complete, as `full`.
  none,     // of IPv4's header only, and UDP's is sent as 0 (no checksum) where IPv4 allows it
};

// Writes udp_header_bytes(path.from.ip.v4()) bytes that end where the payload begins. Of the
// payload itself only the checksum takes notice: of what was lent, where it lies.
void write_udp_headers(std::byte* payload, size_t payload_bytes, const UdpPath& path,
                       Checksums checksums, const Loans& loans = {});

enum class PacketKind : uint8_t {
  datagram,  // UDP for us or another: path and payload are set
  question,  // ARP request, neighbour solicitation or ping: write_answer(). path.from is the asking
             // host (its address may be unspecified), path.to.ip what is asked for
  neighbour,  // ARP reply or announcement, neighbour advertisement: path.from is known now
};

// Why a frame was dropped.
enum class PacketDrop : uint8_t {
  truncated,  // shorter than its headers say
  not_ip,     // another protocol: nothing wrong with it
  not_udp,    // IP, but nothing that we answer
  malformed,  // fields that contradict each other
  fragment,   // a piece of an IP datagram: never sent by us, never put together
  bad_checksum,
  count
};
const char* packet_drop_name(PacketDrop drop);

struct Packet {
  PacketKind kind = PacketKind::datagram;
  UdpPath path;
  std::span<const std::byte> payload;  // a datagram's, or the message of a ping; lies in the frame
};

// True: `packet` says what came. False: `drop` says why not. IPv4 options and padding behind the
// datagram are allowed; IPv6 extension headers and datagrams from no single host (0.0.0.0, groups)
// are not_udp. A VLAN tag is not_ip.
bool parse_packet(std::span<const std::byte> frame, Checksums checksums, Packet& packet,
                  PacketDrop& drop);

// The frame that answers a question asked of `self`, whose frame is still there; returns its
// length, 0 when it is not asked of self (another address) or the reply would not fit.
size_t write_answer(const Packet& question, const Host& self, std::span<std::byte> reply);

// Asks for the MAC address of `target`: an ARP request, or a neighbour solicitation to the
// solicited- node group. Returns the frame's length, 0 where it does not fit or the families
// differ.
size_t write_question(const Host& self, const IpAddress& target, std::span<std::byte> frame);

// Where a host must listen besides at its own MAC address, where neighbours ask for an IPv6 host
// and tell all hosts their news; nothing for IPv4, whose questions are broadcast. A device's filter
// may pass no such group until it is told.
std::vector<MacAddress> listened_groups(const IpAddress& self);

// Announces `self` to all neighbours, unasked: those that knew its address with another MAC address
// would not ask again for long. Returns the frame's length.
size_t write_announcement(const Host& self, std::span<std::byte> frame);

}  // namespace drlnet::link
