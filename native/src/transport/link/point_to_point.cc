#include "transport/link/point_to_point.h"

#include <cstring>

#include "base/assert.h"
#include "transport/link/bytes.h"

namespace drlnet::link {
namespace {

// Places in the headers: what is not the same in each, and the ends of what is.
constexpr size_t kTotal = kEthernetBytes + 2, kIdentification = kTotal + 2;
constexpr size_t kChecksum = kEthernetBytes + 10, kAddresses = kChecksum + 2;
constexpr size_t kUdpLength = kEthernetBytes + kIpv4Bytes + 4, kUdpChecksum = kUdpLength + 2;
constexpr size_t kWithoutPayload = kIpv4Bytes + kUdpBytes;

}  // namespace

PointToPoint::PointToPoint(const UdpPath& path) {
  DRLNET_ASSERT(path.from.ip.v4() && path.to.ip.v4());
  write_udp_headers(empty_.data() + kBytes, 0, path, Checksums::none);
}

// Among the headers' words only the length differs from the empty datagram's (RFC 1624).
uint16_t PointToPoint::checksum(size_t payload_bytes) const {
  const uint32_t sum = static_cast<uint16_t>(~load16(empty_.data() + kChecksum)) +
                       static_cast<uint32_t>(payload_bytes);
  return static_cast<uint16_t>(~((sum & 0xffff) + (sum >> 16)));
}

void PointToPoint::write(std::byte* payload, size_t payload_bytes) const {
  DRLNET_ASSERT(kWithoutPayload + payload_bytes <= 0xffff);
  std::byte* const frame = payload - kBytes;
  std::memcpy(frame, empty_.data(), kBytes);
  store16(frame + kTotal, static_cast<uint16_t>(kWithoutPayload + payload_bytes));
  store16(frame + kChecksum, checksum(payload_bytes));
  store16(frame + kUdpLength, static_cast<uint16_t>(kUdpBytes + payload_bytes));
}

std::span<const std::byte> PointToPoint::payload_of(std::span<const std::byte> frame) const {
  if (frame.size() <= kBytes) return {};
  const std::byte* const bytes = frame.data();
  const size_t total = load16(bytes + kTotal);
  if (total <= kWithoutPayload || total > frame.size() - kEthernetBytes) return {};
  const size_t payload_bytes = total - kWithoutPayload;
  const auto same = [&](size_t begin, size_t end) {
    return std::memcmp(bytes + begin, empty_.data() + begin, end - begin) == 0;
  };
  const bool ours =
      same(0, kTotal) && same(kIdentification, kChecksum) &&
      load16(bytes + kChecksum) == checksum(payload_bytes) && same(kAddresses, kUdpLength) &&
      load16(bytes + kUdpLength) == kUdpBytes + payload_bytes && same(kUdpChecksum, kBytes);
  return ours ? frame.subspan(kBytes, payload_bytes) : std::span<const std::byte>();
}

}  // namespace drlnet::link
