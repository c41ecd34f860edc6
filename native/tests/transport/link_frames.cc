#include "transport/link_frames.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace drlnet::link::test {

Host host_a(bool v4) {
  return {{{2, 0, 0, 0, 0, 1}}, *IpAddress::parse(v4 ? "10.7.0.1" : "fd00::1")};
}
Host host_b(bool v4) {
  return {{{2, 0, 0, 0, 0, 2}}, *IpAddress::parse(v4 ? "10.7.0.2" : "fd00::2")};
}
UdpPath path_to_b(bool v4) { return {host_a(v4), host_b(v4), 40000, 7447}; }

Frame from_hex(std::string_view digits) {
  Frame bytes;
  int half = -1;
  for (const char digit : digits) {
    if (digit == ' ') continue;
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    if (half >= 0) bytes.push_back(static_cast<std::byte>(half << 4 | value));
    half = half >= 0 ? -1 : value;
  }
  return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<int>(byte >> 4)];
    text += "0123456789abcdef"[std::to_integer<int>(byte & std::byte{15})];
  }
  return text;
}

Frame datagram(const UdpPath& path, std::span<const std::byte> payload, Checksums checksums) {
  const size_t header = udp_header_bytes(path.from.ip.v4());
  Frame frame(header + payload.size());
  std::ranges::copy(payload, frame.begin() + static_cast<ptrdiff_t>(header));
  write_udp_headers(frame.data() + header, payload.size(), path, checksums);
  return frame;
}

Frame question(const Host& from, const IpAddress& target) {
  Frame frame(kMaxAnswerBytes);
  frame.resize(write_question(from, target, frame));
  return frame;
}

Frame announcement(const Host& self) {
  Frame frame(kMaxAnswerBytes);
  frame.resize(write_announcement(self, frame));
  return frame;
}

Frame answer(std::span<const std::byte> frame, const Host& self) {
  Packet packet;
  PacketDrop drop;
  REQUIRE(parse_packet(frame, Checksums::full, packet, drop));
  Frame reply(kMaxAnswerBytes);
  reply.resize(write_answer(packet, self, reply));
  return reply;
}

const std::vector<Golden>& golden_frames() {
  static const std::vector<Golden> frames = {
      // Ethernet: to, from, type. IPv4: version and length, total, don't fragment, TTL 64, UDP,
      // checksum, from, to. UDP: ports, length, checksum. "drlnet!"
      {"udp v4", from_hex("020000000002 020000000001 0800 4500 0023 0000 4000 40 11 26ba 0a070001"
                          "0a070002 9c40 1d17 000f db12 64726c6e657421")},
      {"udp v6", from_hex("020000000002 020000000001 86dd 60000000 000f 11 40"
                          "fd000000000000000000000000000001 fd000000000000000000000000000002"
                          "9c40 1d17 000f f51e 64726c6e657421")},
      // With options: two no-operations twice, of which the last ends them.
      {"udp v4 options", from_hex("020000000002 020000000001 0800 4600 0027 0000 4000 40 11 23b5"
                                  "0a070001 0a070002 01010100 9c40 1d17 000f db12 64726c6e657421")},
      {"arp request", from_hex("ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001"
                               "0a070001 000000000000 0a070002")},
      {"arp reply", from_hex("020000000001 020000000002 0806 0001 0800 06 04 0002 020000000002"
                             "0a070002 020000000001 0a070001")},
      // Hop limit 255; type 135, the target, option 1: the asker's MAC address.
      {"solicitation", from_hex("3333ff000002 020000000001 86dd 60000000 0020 3a ff"
                                "fd000000000000000000000000000001 ff0200000000000000000001ff000002"
                                "87 00 7d97 00000000 fd000000000000000000000000000002"
                                "01 01 020000000001")},
      // Type 136, flags solicited and override, option 2.
      {"advertisement", from_hex("020000000001 020000000002 86dd 60000000 0020 3a ff"
                                 "fd000000000000000000000000000002 fd000000000000000000000000000001"
                                 "88 00 1c9a 60000000 fd000000000000000000000000000002"
                                 "02 01 020000000002")},
      {"ping v4", from_hex("020000000002 020000000001 0800 4500 0021 0000 4000 40 01 26cc 0a070001"
                           "0a070002 08 00 bc03 1234 0001 6162636465")},
      {"pong v4", from_hex("020000000001 020000000002 0800 4500 0021 0000 4000 40 01 26cc 0a070002"
                           "0a070001 00 00 c403 1234 0001 6162636465")},
      {"ping v6", from_hex("020000000002 020000000001 86dd 60000000 000d 3a 40"
                           "fd000000000000000000000000000001 fd000000000000000000000000000002"
                           "80 00 49b7 1234 0001 6162636465")},
      {"pong v6", from_hex("020000000001 020000000002 86dd 60000000 000d 3a 40"
                           "fd000000000000000000000000000002 fd000000000000000000000000000001"
                           "81 00 48b7 1234 0001 6162636465")},
  };
  return frames;
}

Frame golden(std::string_view name) {
  for (const Golden& entry : golden_frames()) {
    if (entry.name == name) return entry.frame;
  }
  FAIL("no golden frame " << std::string(name));
  return {};
}

}  // namespace drlnet::link::test
