// IPv4 and IPv6 addresses: parsing, resolving, printing, and their place in an Endpoint.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace drlnet::udp {

constexpr uint16_t kDefaultPort = 7447;

// A socket address as the kernel has it; the same bytes begin an Endpoint.
struct SocketAddress {
  sockaddr_in6 storage{};  // large enough for sockaddr_in as well

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return get()->sa_family; }
  socklen_t length() const { return family() == AF_INET ? sizeof(sockaddr_in) : sizeof storage; }
  uint16_t port() const { return ntohs(storage.sin6_port); }  // where sockaddr_in has it too
  bool loopback() const;
  bool any() const;          // stands for all addresses of the machine
  std::string text() const;  // "127.0.0.1:7447", "[::1]:7447"
};
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
static_assert(sizeof(SocketAddress) <= sizeof(Endpoint::bytes));

Endpoint to_endpoint(const SocketAddress& address);
SocketAddress from_endpoint(const Endpoint& endpoint);

struct HostPort {
  std::string host;
  uint16_t port = kDefaultPort;
  int buffer_bytes = 0;  // of the socket in each direction; 0: what suits most
};
// "HOST", "HOST:PORT" or "[V6]:PORT", and behind it perhaps ",buffer=BYTES". Throws
// Error(transport).
HostPort parse_address(const std::string& text);

// Everything that such an address stands for, in the resolver's order; never
// empty. Throws Error(transport).
std::vector<SocketAddress> resolve(const std::string& host_and_port);

}  // namespace drlnet::udp
