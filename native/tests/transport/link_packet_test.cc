// Frames there and back, and every way in which they can be wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "base/random.h"
#include "transport/link_frames.h"

namespace drlnet::link::test {
namespace {

// The frame in an allocation of its own length, so that the sanitizer sees a read beyond it.
std::optional<PacketDrop> why_dropped(std::span<const std::byte> frame,
                                      Checksums checksums = Checksums::full) {
  const auto copy = std::make_unique_for_overwrite<std::byte[]>(frame.size());
  std::ranges::copy(frame, copy.get());
  Packet packet;
  PacketDrop drop = PacketDrop::count;
  if (!parse_packet({copy.get(), frame.size()}, checksums, packet, drop)) return drop;
  return {};
}

// Changes 16 bits of an IPv4 header and corrects its checksum (RFC 1624, equation 3).
void set_ipv4_field(Frame& frame, size_t at, uint16_t value) {
  const auto load = [&](size_t offset) {
    return static_cast<uint16_t>(std::to_integer<unsigned>(frame[14 + offset]) << 8 |
                                 std::to_integer<unsigned>(frame[15 + offset]));
  };
  uint32_t sum = static_cast<uint16_t>(~load(10)) + static_cast<uint16_t>(~load(at)) + value;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  const auto store = [&](size_t offset, uint32_t number) {
    frame[14 + offset] = static_cast<std::byte>(number >> 8 & 0xff);
    frame[15 + offset] = static_cast<std::byte>(number & 0xff);
  };
  store(at, value);
  store(10, ~sum);
}

}  // namespace

TEST_CASE("datagrams of every length come back, under each policy, padded or not") {
  Random random(5);
  for (const bool v4 : {true, false}) {
    for (const Checksums checksums : {Checksums::full, Checksums::headers, Checksums::none}) {
      for (size_t length = 0; length <= 9000; length += length < 70 ? 1 : 893) {
        Frame payload(length);
        for (std::byte& byte : payload) byte = static_cast<std::byte>(random.bits());
        const UdpPath path = {host_a(v4), host_b(v4), static_cast<uint16_t>(random.bits()),
                              static_cast<uint16_t>(random.bits())};
        Frame frame = datagram(path, payload, checksums);
        for (const size_t padding : {0, 18}) {
          frame.resize(frame.size() + padding, std::byte{0xee});
          Packet packet;
          PacketDrop drop;
          REQUIRE(parse_packet(frame, checksums, packet, drop));
          CHECK(packet.kind == PacketKind::datagram);
          CHECK(packet.path.from.mac == path.from.mac);
          CHECK(packet.path.from.ip == path.from.ip);
          CHECK(packet.path.to.mac == path.to.mac);
          CHECK(packet.path.to.ip == path.to.ip);
          CHECK(packet.path.from_port == path.from_port);
          CHECK(packet.path.to_port == path.to_port);
          CHECK(std::ranges::equal(packet.payload, payload));
        }
      }
    }
  }
}

TEST_CASE("a checksum is of what was lent, wherever it lies and however long it is") {
  Random random(6);
  Frame payload(8000);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random.bits());
  const Frame whole = datagram(path_to_b(true), payload);
  const size_t headers = whole.size() - payload.size();
  for (const size_t head : {0, 1, 2, 63, 64}) {
    for (const size_t piece : {1024, 1025, 2047}) {
      CAPTURE(head);
      CAPTURE(piece);
      Frame frame = whole;
      std::ranges::fill(frame, std::byte{0xEE});
      std::byte* const place = frame.data() + headers;
      Loans loans;
      std::memcpy(place, payload.data(), payload.size());
      for (size_t at = head, n = 0; n < 3; at += piece + n % 2, ++n) {
        std::memset(place + at, 0xEE, piece);
        loans.put(place + at, payload.data() + at, piece);
      }
      write_udp_headers(place, payload.size(), path_to_b(true), Checksums::full, loans);
      loans.copy_out();
      CHECK(frame == whole);
    }
  }
}

TEST_CASE("a frame cut short anywhere is dropped as truncated") {
  for (const auto& [name, frame] : golden_frames()) {
    CAPTURE(name);
    for (size_t length = 0; length < frame.size(); ++length) {
      CAPTURE(length);
      const auto drop = why_dropped(std::span(frame).first(length));
      REQUIRE(drop.has_value());
      CHECK(*drop == PacketDrop::truncated);
    }
  }
}

// But for the Ethernet header, which the link's own check sequence covers, and IPv6's first bytes
// and hop limit, which nothing does, as in ARP.
TEST_CASE("no single flipped bit under a checksum passes") {
  const auto flip_all = [](const Frame& frame, size_t begin, size_t end) {
    for (size_t bit = 8 * begin; bit < 8 * end; ++bit) {
      CAPTURE(bit);
      Frame flipped = frame;
      flipped[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
      CHECK(why_dropped(flipped).has_value());
    }
  };
  for (const char* name : {"udp v4", "udp v4 options", "ping v4"}) {
    CAPTURE(name);
    flip_all(golden(name), kEthernetBytes, golden(name).size());
  }
  for (const char* name : {"udp v6", "solicitation", "advertisement", "ping v6"}) {
    CAPTURE(name);
    const Frame frame = golden(name);
    flip_all(frame, kEthernetBytes + 4, kEthernetBytes + 7);  // length and protocol
    flip_all(frame, kEthernetBytes + 8, frame.size());
  }
}

TEST_CASE("a checksum is zero where there is none, and never by chance") {
  // The payload's last word is chosen so that the sum comes out as each value.
  size_t written_ffff = 0;
  for (uint32_t word = 0; word < 0x10000; ++word) {
    const Frame payload = {static_cast<std::byte>(word >> 8), static_cast<std::byte>(word & 0xff)};
    const Frame v4 = datagram(path_to_b(true), payload), v6 = datagram(path_to_b(false), payload);
    for (const Frame& frame : {v4, v6}) {
      const size_t at = frame.size() - payload.size() - 2;
      const bool zero = frame[at] == std::byte{0} && frame[at + 1] == std::byte{0};
      REQUIRE(!zero);
      written_ffff += frame[at] == std::byte{0xff} && frame[at + 1] == std::byte{0xff};
      if (why_dropped(frame)) FAIL("word " << word);
    }
  }
  CHECK(written_ffff == 2);  // one word in each family makes it zero, which is written so
  Frame v4 = golden("udp v4"), v6 = golden("udp v6");
  v4[40] = v4[41] = v6[60] = v6[61] = std::byte{0};
  CHECK(!why_dropped(v4));
  for (const Checksums checksums : {Checksums::full, Checksums::headers, Checksums::none}) {
    CHECK(why_dropped(v6, checksums) == PacketDrop::bad_checksum);
  }
}

TEST_CASE("checksums that a virtual link left unfinished pass where they are not looked at") {
  for (const char* name : {"udp v4", "udp v6", "ping v4", "ping v6"}) {
    CAPTURE(name);
    Frame frame = golden(name);
    frame.back() ^= std::byte{1};
    CHECK(why_dropped(frame) == PacketDrop::bad_checksum);
    CHECK(!why_dropped(frame, Checksums::headers));
    CHECK(!why_dropped(frame, Checksums::none));
  }
  Frame header = golden("udp v4");
  header[22] ^= std::byte{1};  // of IPv4's header there is always one
  for (const Checksums checksums : {Checksums::full, Checksums::headers, Checksums::none}) {
    CHECK(why_dropped(header, checksums) == PacketDrop::bad_checksum);
  }
}

TEST_CASE("fragments are dropped, first, middle and last; don't-fragment alone is none") {
  for (const uint16_t field : {0x2000, 0x2010, 0x0010, 0x6000, 0x1fff}) {
    Frame frame = golden("udp v4");
    set_ipv4_field(frame, 6, field);
    CHECK(why_dropped(frame) == PacketDrop::fragment);
  }
  Frame frame = golden("udp v4");
  set_ipv4_field(frame, 6, 0);
  CHECK(!why_dropped(frame));
  Frame v6 = golden("udp v6");
  v6[20] = std::byte{44};
  CHECK(why_dropped(v6) == PacketDrop::fragment);
}

TEST_CASE("each thing that is wrong has its reason") {
  const auto changed = [](const char* name, size_t at, int value) {
    Frame frame = golden(name);
    frame[at] = static_cast<std::byte>(value);
    return frame;
  };
  CHECK(why_dropped(changed("udp v4", 6, 3)) == PacketDrop::malformed);      // from a group
  CHECK(why_dropped(changed("udp v4", 12, 0x81)) == PacketDrop::not_ip);     // VLAN: 8100
  CHECK(why_dropped(changed("udp v4", 14, 0x44)) == PacketDrop::malformed);  // 16 bytes of header
  CHECK(why_dropped(changed("udp v4", 14, 0x65)) ==
        PacketDrop::malformed);  // version 6 in type 0800
  CHECK(why_dropped(changed("udp v6", 14, 0x45)) == PacketDrop::malformed);
  CHECK(why_dropped(changed("udp v6", 20, 0)) == PacketDrop::not_udp);  // hop-by-hop options
  Frame tcp = golden("udp v4");
  set_ipv4_field(tcp, 8, 0x4006);
  CHECK(why_dropped(tcp) == PacketDrop::not_udp);
  Frame shorter = golden("udp v4");
  set_ipv4_field(shorter, 2, 19);  // than its own header
  CHECK(why_dropped(shorter) == PacketDrop::malformed);
  set_ipv4_field(shorter, 2, 27);  // than UDP's
  CHECK(why_dropped(shorter) == PacketDrop::truncated);
  CHECK(why_dropped(changed("udp v4", 39, 7)) == PacketDrop::malformed);   // UDP's length
  CHECK(why_dropped(changed("udp v4", 39, 16)) == PacketDrop::truncated);  // beyond IP's
  for (const uint16_t from : {0x0000, 0xe000}) {                           // no host, a group
    Frame frame = golden("udp v4");
    set_ipv4_field(frame, 12, from);
    set_ipv4_field(frame, 14, 0);
    CHECK(why_dropped(frame, Checksums::headers) == PacketDrop::not_udp);
  }
  Frame mapped = golden("udp v6");  // ::ffff:10.7.0.1, which never travels
  std::memcpy(&mapped[22], host_a(true).ip.bytes.data(), 16);
  CHECK(why_dropped(mapped, Checksums::headers) == PacketDrop::malformed);
  CHECK(why_dropped(changed("arp request", 15, 6)) == PacketDrop::malformed);  // no Ethernet
  CHECK(why_dropped(changed("arp request", 18, 8)) == PacketDrop::malformed);
  CHECK(why_dropped(changed("arp request", 21, 3)) == PacketDrop::not_udp);    // reverse ARP
  CHECK(why_dropped(changed("arp request", 22, 1)) == PacketDrop::malformed);  // from a group
  CHECK(why_dropped(changed("arp reply", 28, 224)) == PacketDrop::malformed);
  Frame unset = golden("arp request");  // asks for the address of no host
  std::fill_n(unset.begin() + 28, 14, std::byte{0});
  CHECK(why_dropped(unset) == PacketDrop::malformed);
}

TEST_CASE("neighbour discovery from beyond the link, or against its rules, is dropped") {
  const auto dropped = [](const char* name, std::initializer_list<std::pair<size_t, int>> changes) {
    Frame frame = golden(name);
    for (const auto& [at, value] : changes) frame[at] = static_cast<std::byte>(value);
    // Whether a checksum would have caught it is not the question.
    return why_dropped(frame, Checksums::headers);
  };
  for (const char* name : {"solicitation", "advertisement"}) {
    CAPTURE(name);
    CHECK(!dropped(name, {}));
    CHECK(dropped(name, {{21, 254}}) == PacketDrop::malformed);   // passed a router
    CHECK(dropped(name, {{55, 1}}) == PacketDrop::malformed);     // code
    CHECK(dropped(name, {{62, 0xff}}) == PacketDrop::malformed);  // a group as the target
    CHECK(dropped(name, {{79, 0}}) == PacketDrop::malformed);     // an option without a length
    CHECK(dropped(name, {{79, 2}}) == PacketDrop::malformed);     // one beyond the end
    CHECK(dropped(name, {{80, 3}}) == PacketDrop::malformed);     // a group's MAC address
    CHECK(!dropped(name, {{78, 14}}));                            // an option that we do not know
  }
  // An advertisement to all that calls itself solicited.
  CHECK(dropped("advertisement", {{38, 0xff}, {39, 2}}) == PacketDrop::malformed);
  // An advertisement of no host.
  CHECK(dropped("advertisement", {{22, 0}, {37, 0}}) == PacketDrop::malformed);
  // A probe carries no MAC address: its address is not taken yet.
  CHECK(dropped("solicitation", {{22, 0}, {37, 0}}) == PacketDrop::malformed);
}

}  // namespace drlnet::link::test
