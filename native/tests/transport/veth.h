// Pairs of joined Ethernet interfaces in a network namespace of this process's own: they end with
// it, and meet none of another process.
#pragma once

#include <string>

namespace drlnet::test {

// Joined pairs, of the longest MTU of each driver. Nothing but the drivers has an address on them.
struct VethPair {
  const char *server, *client;
  int mtu;
};
constexpr VethPair kPacketPair = {"packet0", "packet1", 9000};
constexpr VethPair kXdpPair = {"xdp0", "xdp1", 3400};

// Deletes the pair and makes it anew: other interfaces, of the same names.
void join_again(const VethPair& pair);

// Why there are none; empty when they are there.
const std::string& veth_trouble();

}  // namespace drlnet::test
