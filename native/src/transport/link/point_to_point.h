// Headers on a link that two hosts have for themselves: the same for every datagram but for its
// length. Made once, they are copied and compared: some 6 ns a frame, where writing and reading
// them (packet.h) takes 27.
#pragma once

#include <array>

#include "transport/link/packet.h"

namespace drlnet::link {

class PointToPoint {
 public:
  // Over IPv4, with Checksums::none.
  explicit PointToPoint(const UdpPath& path);

  // Does what write_udp_headers() does.
  void write(std::byte* payload, size_t payload_bytes) const;
  // The payload of a frame that begins with these headers. Empty where it does not: parse_packet()
  // says more.
  std::span<const std::byte> payload_of(std::span<const std::byte> frame) const;

 private:
  static constexpr size_t kBytes = udp_header_bytes(true);

  uint16_t checksum(size_t payload_bytes) const;

  std::array<std::byte, kBytes> empty_;  // of a datagram without payload
};

}  // namespace drlnet::link
