#include "transport/udp_socket.h"

#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"

namespace drlnet::udp {
namespace {

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// The forced variant passes net.core.[rw]mem_max, but asks for CAP_NET_ADMIN.
void size_buffer(int fd, int forced_name, int name, int bytes) {
  if (!set_option(fd, SOL_SOCKET, forced_name, bytes)) set_option(fd, SOL_SOCKET, name, bytes);
}

Error error_of(const std::string& given, const char* action, int code) {
  const std::string cause = "udp://" + given + ": cannot " + action + ": " + std::strerror(code);
  switch (code) {
    case EADDRINUSE:
      return {Status::transport, cause + " (EADDRINUSE)",
              "Another process has the port: stop it, choose another port, or 0 for a free one."};
    case EADDRNOTAVAIL:
      return {Status::transport, cause, "This machine has no such address; see `ip address`."};
    case EACCES:
    case EPERM:
      return {Status::transport, cause,
              "Ports below 1024 need privileges: choose a higher one; else ask the firewall."};
    case EAFNOSUPPORT:
      return {Status::transport, cause, "This machine has no IPv6: write an IPv4 address."};
    case EMFILE:
    case ENFILE:
      return {Status::transport, cause, "Raise the limit on open files (ulimit -n)."};
    default:
      return {Status::transport, cause, "Check the address and that there is a route to it."};
  }
}

}  // namespace

Socket::Socket(int family, const Options& options)
    : fd_(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (fd_ < 0) return;
  size_buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF, options.buffer_bytes);
  size_buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF, options.buffer_bytes);
  // Never fragment at IP, and let no remembered path MTU hold back a probe.
  if (family == AF_INET) {
    set_option(fd_, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
  } else {
    set_option(fd_, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    set_option(fd_, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
  }
  // 0 leaves it off by default: every message names its own segment size.
  segmentation_ = options.segmentation && set_option(fd_, SOL_UDP, UDP_SEGMENT, 0);
  receive_offload_ = options.receive_offload && set_option(fd_, SOL_UDP, UDP_GRO, 1);
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      choices_(other.choices_),
      segmentation_(other.segmentation_),
      receive_offload_(other.receive_offload_),
      any_local_(other.any_local_) {}

Socket Socket::bound(const std::vector<SocketAddress>& addresses, const std::string& given,
                     const Options& options) {
  int code = 0;
  for (const SocketAddress& address : addresses) {
    Socket socket(address.family(), options);
    // Before it is bound: no message may come without.
    socket.any_local_ =
        socket.fd_ >= 0 && address.any() &&
        (address.family() == AF_INET ? set_option(socket.fd_, IPPROTO_IP, IP_PKTINFO, 1)
                                     : set_option(socket.fd_, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
    if (socket.fd_ >= 0 && bind(socket.fd_, address.get(), address.length()) == 0) return socket;
    code = errno;
    // A name may stand for addresses that this machine has not; a port in use is the answer.
    if (code != EADDRNOTAVAIL && code != EAFNOSUPPORT) break;
  }
  throw error_of(given, "listen", code);
}

Socket Socket::connected(const std::vector<SocketAddress>& addresses, const std::string& given,
                         const Options& options) {
  if (addresses[0].port() == 0) {
    throw Error(Status::transport, "udp://" + given + ": nothing can listen on port 0",
                "Pass the address that the server printed when it was ready.");
  }
  int code = 0;
  std::optional<Socket> first;
  for (const SocketAddress& address : addresses) {
    Socket socket(address.family(), options);
    if (socket.fd_ < 0 || connect(socket.fd_, address.get(), address.length()) != 0) {
      code = errno;
      continue;
    }
    socket.choices_ = addresses.size();
    if (addresses.size() == 1 || !socket.refused()) return socket;
    if (!first) first.emplace(std::move(socket));
  }
  if (first) return std::move(*first);
  throw error_of(given, "connect", code);
}

// Any routable address can be connected to. On this machine the answer to a datagram is there when
// it has been sent; an empty one holds no frame, and no server heeds it.
bool Socket::refused() const {
  int code = 0;
  socklen_t length = sizeof code;
  send(fd_, nullptr, 0, 0);
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &length);
  return code == ECONNREFUSED;
}

size_t Socket::receive_buffer_bytes() const {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  getsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, &length);
  return static_cast<size_t>(bytes);
}

uint64_t Socket::receive_drops() const {
  std::array<uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t length = sizeof info;
  getsockopt(fd_, SOL_SOCKET, SO_MEMINFO, info.data(), &length);
  return info[SK_MEMINFO_DROPS];
}

size_t Socket::longest_frame() const {
  const bool v6 = local().family() == AF_INET6;
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const int failed = v6 ? getsockopt(fd_, IPPROTO_IPV6, IPV6_MTU, &mtu, &length)
                        : getsockopt(fd_, IPPROTO_IP, IP_MTU, &mtu, &length);
  if (failed != 0) return kMaxFrameBytes;  // it is not connected
  const size_t headers = v6 ? 48 : 28;     // of IP and UDP
  return std::clamp<size_t>(static_cast<size_t>(mtu) - headers, kFrameSizes.back(), kMaxFrameBytes);
}

SocketAddress Socket::local() const {
  SocketAddress address;
  socklen_t length = sizeof address.storage;
  getsockname(fd_, address.get(), &length);
  return address;
}

SocketAddress Socket::peer() const {
  SocketAddress address;
  socklen_t length = sizeof address.storage;
  getpeername(fd_, address.get(), &length);
  return address;
}

}  // namespace drlnet::udp
