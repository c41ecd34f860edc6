// Headers that were made once are those that are made each time.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "transport/link/point_to_point.h"
#include "transport/link_frames.h"

namespace drlnet::link::test {

TEST_CASE("headers made once: the same bytes for every length") {
  const UdpPath path = {host_a(true), host_b(true), 47'000, 47'001};
  const PointToPoint made_once(path);
  Frame payload(65'507);
  for (size_t length = 0; length <= payload.size(); length += length < 10'000 ? 1 : 331) {
    const Frame frame = datagram(path, std::span(payload).first(length), Checksums::none);
    Frame written(frame.size(), std::byte{0xee});
    std::ranges::copy(payload.begin(), payload.begin() + static_cast<ptrdiff_t>(length),
                      written.begin() + udp_header_bytes(true));
    made_once.write(written.data() + udp_header_bytes(true), length);
    REQUIRE(std::ranges::equal(written, frame));
    const auto found = made_once.payload_of(frame);
    REQUIRE(found.size() == length);
    if (length > 0) REQUIRE(found.data() == frame.data() + udp_header_bytes(true));
  }
}

TEST_CASE("headers made once: what is not exactly theirs is left to the parser") {
  Random random(9);
  const UdpPath path = {host_a(true), host_b(true), 47'000, 47'001};
  const PointToPoint made_once(path);
  const Frame payload(100, std::byte{0x5a});
  const Frame good = datagram(path, payload, Checksums::none);
  for (size_t at = 0; at < udp_header_bytes(true); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      Frame frame = good;
      frame[at] ^= std::byte{1} << bit;
      CHECK(made_once.payload_of(frame).empty());
    }
  }
  for (size_t length = 0; length < good.size(); ++length) {
    const auto cut = std::make_unique_for_overwrite<std::byte[]>(length);
    std::ranges::copy(std::span(good).first(length), cut.get());
    CHECK(made_once.payload_of({cut.get(), length}).empty());
  }
  Frame padded = good;
  padded.resize(good.size() + 18, std::byte{0xee});
  CHECK(made_once.payload_of(padded).size() == payload.size());
  // Another port, the other way round, the other family.
  for (const UdpPath& other : {UdpPath{path.from, path.to, path.from_port, 5},
                               UdpPath{path.from, path.to, 5, path.to_port},
                               UdpPath{path.to, path.from, path.from_port, path.to_port},
                               UdpPath{host_a(false), host_b(false), 47'000, 47'001}}) {
    CHECK(made_once.payload_of(datagram(other, payload, Checksums::none)).empty());
  }
  // Whatever is taken, the parser takes in the same way.
  for (int i = 0; i < 200'000; ++i) {
    Frame frame = good;
    for (uint64_t n = random.bits() % 3; n-- > 0;) {
      frame[random.bits() % udp_header_bytes(true)] = static_cast<std::byte>(random.bits());
    }
    const auto found = made_once.payload_of(frame);
    if (found.empty()) continue;
    Packet packet;
    PacketDrop drop;
    REQUIRE(parse_packet(frame, Checksums::none, packet, drop));
    REQUIRE(packet.payload.data() == found.data());
    REQUIRE(packet.payload.size() == found.size());
    REQUIRE(packet.path.from.ip == path.from.ip);
    REQUIRE(packet.path.to_port == path.to_port);
  }
}

}  // namespace drlnet::link::test
