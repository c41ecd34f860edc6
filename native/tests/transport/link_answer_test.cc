// Which hosts are answered, which are not, and what is learned on the way.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "transport/link/bytes.h"
#include "transport/link_frames.h"

namespace drlnet::link::test {
namespace {

Packet parsed(const Frame& frame) {
  Packet packet;
  PacketDrop drop = PacketDrop::count;
  REQUIRE_MESSAGE(parse_packet(frame, Checksums::full, packet, drop), packet_drop_name(drop));
  return packet;
}

// The solicitation of host A without an address of its own: "has another fd00::2 already?"
Frame probe_v6() {
  Frame frame = golden("solicitation");
  frame.erase(frame.end() - 8, frame.end());  // no option
  std::fill_n(frame.begin() + 22, 16, std::byte{0});
  store16(&frame[18], 24);
  store16(&frame[56], 0);
  Checksum sum;
  sum.add(&frame[22], 32);
  sum.add(uint16_t{58});
  sum.add(uint16_t{24});
  sum.add(&frame[54], 24);
  store_raw16(&frame[56], sum.complement());
  return frame;
}

}  // namespace

TEST_CASE("a host listens where neighbours ask for it") {
  CHECK(listened_groups(*IpAddress::parse("10.7.0.2")).empty());
  for (const Host& host : {host_a(false), host_b(false)}) {
    const auto groups = listened_groups(host.ip);
    for (const Frame& frame : {question(host_a(false), host.ip), announcement(host_a(false))}) {
      MacAddress to;
      std::memcpy(to.bytes.data(), frame.data(), to.bytes.size());
      CHECK(std::ranges::count(groups, to) == 1);
    }
  }
  // RFC 4291, section 2.7.1, has this example.
  const MacAddress solicited{{0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c}};
  CHECK(std::ranges::count(listened_groups(*IpAddress::parse("4037::01:800:200e:8c6c")),
                           solicited) == 1);
}

TEST_CASE("both hosts know each other after a question and its answer") {
  for (const bool v4 : {true, false}) {
    const Host a = host_a(v4), b = host_b(v4);
    const Frame asked = question(a, b.ip);
    const Packet heard_by_b = parsed(asked);
    CHECK(heard_by_b.kind == PacketKind::question);
    CHECK(heard_by_b.path.from.ip == a.ip);
    CHECK(heard_by_b.path.from.mac == a.mac);
    const Frame told = answer(asked, b);
    CHECK(told.size() >= 42);
    const Packet heard_by_a = parsed(told);
    CHECK(heard_by_a.kind == PacketKind::neighbour);
    CHECK(heard_by_a.path.from.ip == b.ip);
    CHECK(heard_by_a.path.from.mac == b.mac);
    CHECK(heard_by_a.path.to.mac == a.mac);
  }
}

TEST_CASE("an announcement makes its host known and draws no answer") {
  for (const bool v4 : {true, false}) {
    const Host a = host_a(v4);
    const Frame frame = announcement(a);
    const Packet packet = parsed(frame);
    CHECK(packet.kind == PacketKind::neighbour);
    CHECK(packet.path.from.ip == a.ip);
    CHECK(packet.path.from.mac == a.mac);
    CHECK(packet.path.to.mac.multicast());
    CHECK(answer(frame, a).empty());
    CHECK(answer(frame, host_b(v4)).empty());
  }
}

TEST_CASE("a host that looks whether an address is taken is told so") {
  Frame probe = golden("arp request");
  std::fill_n(probe.begin() + 28, 4, std::byte{0});
  const Packet reply = parsed(answer(probe, host_b(true)));
  CHECK(reply.path.from.ip == host_b(true).ip);
  CHECK(reply.path.to.mac == host_a(true).mac);

  CHECK(parsed(probe_v6()).path.from.ip == IpAddress{});
  const Frame to_all = answer(probe_v6(), host_b(false));
  const Packet told = parsed(to_all);
  CHECK(told.kind == PacketKind::neighbour);
  CHECK(told.path.from.ip == host_b(false).ip);
  CHECK(to_hex(std::span(to_all).first(6)) == "333300000001");
  CHECK(to_hex(std::span(to_all).subspan(38, 16)) == "ff020000000000000000000000000001");
}

TEST_CASE("a question that was sent to another's MAC address is not answered") {
  for (const char* name : {"arp request", "solicitation", "ping v4", "ping v6"}) {
    Frame frame = golden(name);
    frame[0] = std::byte{2};
    frame[5] = std::byte{9};
    CHECK(answer(frame, host_b(frame[12] == std::byte{8})).empty());
  }
  Frame to_all = golden("ping v4");
  std::fill_n(to_all.begin(), 6, std::byte{0xff});
  CHECK(answer(to_all, host_b(true)).empty());
}

TEST_CASE("an answer that does not fit is not written") {
  for (const auto& [name, frame] : golden_frames()) {
    const Packet packet = [&, &bytes = frame] {
      Packet read;
      PacketDrop drop;
      if (!parse_packet(bytes, Checksums::full, read, drop)) read.kind = PacketKind::neighbour;
      return read;
    }();
    if (packet.kind != PacketKind::question) continue;
    CAPTURE(name);
    const Host b = host_b(packet.path.to.ip.v4());
    const size_t needed = answer(frame, b).size();
    for (size_t room = 0; room <= needed; ++room) {
      const auto reply = std::make_unique<std::byte[]>(room);
      CHECK(write_answer(packet, b, {reply.get(), room}) == (room == needed ? needed : 0));
    }
  }
  for (const bool v4 : {true, false}) {
    const size_t needed = question(host_a(v4), host_b(v4).ip).size();
    for (size_t room = 0; room < needed; ++room) {
      const auto frame = std::make_unique<std::byte[]>(room);
      CHECK(write_question(host_a(v4), host_b(v4).ip, {frame.get(), room}) == 0);
      CHECK(write_announcement(host_a(v4), {frame.get(), room}) == 0);
    }
    CHECK(question(host_a(v4), host_b(!v4).ip).empty());
  }
}

TEST_CASE("pings of every length up to an Ethernet frame come back as they were") {
  for (const bool v4 : {true, false}) {
    const size_t headers = kEthernetBytes + (v4 ? kIpv4Bytes : kIpv6Bytes);
    for (size_t length = 8; length <= 1600 - headers; length += 31) {
      CAPTURE(length);
      // A pong is a ping but for its type.
      Frame frame = golden(v4 ? "ping v4" : "ping v6");
      frame.resize(headers + length, std::byte{0x5a});
      if (v4) {
        store16(&frame[16], static_cast<uint16_t>(kIpv4Bytes + length));
        store16(&frame[24], 0);
        Checksum sum;
        sum.add(&frame[14], kIpv4Bytes);
        store_raw16(&frame[24], sum.complement());
      } else {
        store16(&frame[18], static_cast<uint16_t>(length));
      }
      Packet packet;
      PacketDrop drop;
      REQUIRE(parse_packet(frame, Checksums::headers, packet, drop));
      Frame reply(2000);
      const size_t written = write_answer(packet, host_b(v4), reply);
      CHECK(written == (frame.size() <= kMaxAnswerBytes ? frame.size() : 0));
      if (written == 0) continue;
      const auto behind_checksum = static_cast<ptrdiff_t>(headers) + 4;
      CHECK(std::equal(frame.begin() + behind_checksum, frame.end(),
                       reply.begin() + behind_checksum));
    }
  }
}

}  // namespace drlnet::link::test
