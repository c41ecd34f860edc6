// What we write, and how we read it, against bytes derived by hand from the RFCs.
#include <doctest/doctest.h>

#include "transport/link/checksum.h"
#include "transport/link_frames.h"

namespace drlnet::link::test {
namespace {

Frame text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("a checksum is RFC 1071's, wherever its data lies and however long it is") {
  Checksum example;  // section 3 adds up to ddf2
  const Frame data = from_hex("0001 f203 f4f5 f6f7");
  example.add(data.data(), data.size());
  CHECK(example.complement() == network_order(static_cast<uint16_t>(~0xddf2)));
  CHECK(!example.holds());

  Frame long_data(9216 + 16);
  for (size_t i = 0; i < long_data.size(); ++i) long_data[i] = static_cast<std::byte>(i * 7 + 3);
  std::fill_n(long_data.begin() + 4096, 4096, std::byte{0xff});
  for (size_t length = 0; length <= 9216; length += length < 80 ? 1 : 1001) {
    for (size_t offset = 0; offset < 9; ++offset) {
      uint32_t expected = 0;  // as the RFC says it, byte by byte
      for (size_t i = 0; i < length; ++i) {
        expected += std::to_integer<uint32_t>(long_data[offset + i]) << (i % 2 == 0 ? 8 : 0);
        expected = (expected & 0xffff) + (expected >> 16);
      }
      Checksum sum;
      sum.add(long_data.data() + offset, length);
      CHECK(sum.complement() == network_order(static_cast<uint16_t>(~expected)));
    }
  }
}

TEST_CASE("a datagram is written byte by byte as the RFCs say") {
  const Frame payload = text("drlnet!");
  CHECK(to_hex(datagram(path_to_b(true), payload)) == to_hex(golden("udp v4")));
  CHECK(to_hex(datagram(path_to_b(false), payload)) == to_hex(golden("udp v6")));
  // `headers` sends complete frames as well; `none` leaves out what IPv4 can do without.
  CHECK(datagram(path_to_b(true), payload, Checksums::headers) == golden("udp v4"));
  CHECK(datagram(path_to_b(false), payload, Checksums::none) == golden("udp v6"));
  Frame unchecked = golden("udp v4");
  unchecked[40] = unchecked[41] = std::byte{0};
  CHECK(to_hex(datagram(path_to_b(true), payload, Checksums::none)) == to_hex(unchecked));
}

// From Wikipedia's article "Internet checksum": 115 bytes of UDP from 192.168.0.1 to 192.168.0.199.
TEST_CASE("an IPv4 header that others have published is ours") {
  UdpPath path = path_to_b(true);
  path.from.ip = IpAddress::from_v4(0xc0a80001);
  path.to.ip = IpAddress::from_v4(0xc0a800c7);
  const Frame frame = datagram(path, Frame(115 - kIpv4Bytes - kUdpBytes));
  CHECK(to_hex(std::span(frame).subspan(kEthernetBytes, kIpv4Bytes)) ==
        "45000073000040004011b861c0a80001c0a800c7");
}

TEST_CASE("questions and answers are written byte by byte as the RFCs say") {
  for (const bool v4 : {true, false}) {
    const Host a = host_a(v4), b = host_b(v4);
    const Frame asked = golden(v4 ? "arp request" : "solicitation");
    CHECK(to_hex(question(a, b.ip)) == to_hex(asked));
    CHECK(to_hex(answer(asked, b)) == to_hex(golden(v4 ? "arp reply" : "advertisement")));
    CHECK(to_hex(answer(golden(v4 ? "ping v4" : "ping v6"), b)) ==
          to_hex(golden(v4 ? "pong v4" : "pong v6")));
    CHECK(answer(asked, a).empty());
    CHECK(answer(golden(v4 ? "ping v4" : "ping v6"), a).empty());
  }
}

TEST_CASE("what the RFCs' frames say is read") {
  const struct {
    const char* name;
    PacketKind kind;
    bool v4;
  } expected[] = {
      {"udp v4", PacketKind::datagram, true},         {"udp v6", PacketKind::datagram, false},
      {"udp v4 options", PacketKind::datagram, true}, {"arp request", PacketKind::question, true},
      {"solicitation", PacketKind::question, false},  {"ping v4", PacketKind::question, true},
      {"ping v6", PacketKind::question, false},
  };
  for (const auto& [name, kind, v4] : expected) {
    CAPTURE(name);
    const Frame frame = golden(name);
    Packet packet;
    PacketDrop drop;
    REQUIRE(parse_packet(frame, Checksums::full, packet, drop));
    CHECK(packet.kind == kind);
    CHECK(packet.path.from.mac == host_a(v4).mac);
    CHECK(packet.path.from.ip == host_a(v4).ip);
    CHECK(packet.path.to.ip == host_b(v4).ip);
    if (kind != PacketKind::datagram) continue;
    CHECK(packet.path.to.mac == host_b(v4).mac);
    CHECK(packet.path.from_port == 40000);
    CHECK(packet.path.to_port == 7447);
    CHECK(Frame(packet.payload.begin(), packet.payload.end()) == text("drlnet!"));
  }
  for (const bool v4 : {true, false}) {
    Packet packet;
    PacketDrop drop;
    REQUIRE(
        parse_packet(golden(v4 ? "arp reply" : "advertisement"), Checksums::full, packet, drop));
    CHECK(packet.kind == PacketKind::neighbour);
    CHECK(packet.path.from.mac == host_b(v4).mac);
    CHECK(packet.path.from.ip == host_b(v4).ip);
    // A reply to another host's ping.
    CHECK(!parse_packet(golden(v4 ? "pong v4" : "pong v6"), Checksums::full, packet, drop));
    CHECK(drop == PacketDrop::not_udp);
  }
}

}  // namespace drlnet::link::test
