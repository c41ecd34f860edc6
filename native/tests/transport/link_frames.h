// Frames for the tests of the link layer: two hosts, what they say to each other, and bytes derived
// by hand from the RFCs, field by field, with the checksums added up apart from our code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transport/link/packet.h"

namespace drlnet::link::test {

using Frame = std::vector<std::byte>;

// MAC addresses 02:00:00:00:00:01 and :02.
Host host_a(bool v4);  // 10.7.0.1, fd00::1
Host host_b(bool v4);  // 10.7.0.2, fd00::2
// From port 40000 of A to port 7447 of B.
UdpPath path_to_b(bool v4);

Frame from_hex(std::string_view digits);
std::string to_hex(std::span<const std::byte> bytes);
Frame datagram(const UdpPath& path, std::span<const std::byte> payload,
               Checksums checksums = Checksums::full);
Frame question(const Host& from, const IpAddress& target);
Frame announcement(const Host& self);
// Empty when there is none.
Frame answer(std::span<const std::byte> frame, const Host& self);

struct Golden {
  const char* name;
  Frame frame;
};
// All of them from A to B, or to all. What is parsed as what stands in link_golden_test.cc.
const std::vector<Golden>& golden_frames();
Frame golden(std::string_view name);

}  // namespace drlnet::link::test
