// A bare transfer over kernel UDP alone, beside our transports: the floor of large replies. Bytes
// from one buffer into another and nothing else.
// Datagrams are as long as loopback takes, and so are a session's, and arrive straight in their
// place: no copy but the kernel's, no header, no retransmission. The receiver allows no more
// bytes than its socket's buffer holds, so that none is lost.
// Threading: each side is one thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/poll.h"
#include "measure/loop.h"
#include "transport/udp_socket.h"

namespace drlnet::measure {

class UdpSender {
 public:
  // On a free port of the loopback interface. Throws Error(transport).
  explicit UdpSender(Poll poll);
  uint16_t port() const { return port_; }
  // Sends what is asked for, for that long. Returns how many bytes it sent.
  uint64_t serve(uint64_t for_ns);

 private:
  void begin(uint64_t bytes);
  void send(uint64_t allowed);

  Poll poll_;
  udp::Socket socket_;
  uint16_t port_;
  std::vector<std::byte> bytes_;
  uint64_t transfer_ = 0, sent_ = 0;  // of the newest transfer
  udp::SocketAddress to_{};
};

class UdpReceiver {
 public:
  UdpReceiver(uint16_t port, Poll poll);
  // Transfers of that many bytes. Throws Error(transport) when nothing comes for a second.
  size_t transfers(uint64_t bytes, const Loop& loop);
  std::span<const std::byte> received() const { return bytes_; }  // the last one, and room behind

 private:
  void transfer(uint64_t bytes);
  void ask(uint64_t bytes, uint64_t allowed);
  size_t receive(std::byte* to);

  Poll poll_;
  udp::Socket socket_;
  std::vector<std::byte> bytes_;
  uint64_t transfer_ = 0;
};

}  // namespace drlnet::measure
