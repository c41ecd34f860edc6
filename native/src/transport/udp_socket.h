// A non-blocking UDP socket, set up: buffers, no fragmentation at IP, offloads where the kernel has
// them.
#pragma once

#include "transport/udp_address.h"

namespace drlnet::udp {

struct Options {
  bool segmentation = true;     // UDP_SEGMENT: several equal frames to one endpoint in one message
  bool receive_offload = true;  // UDP_GRO: the reverse
  int buffer_bytes = 4 << 20;   // what is asked of the kernel for each direction; it may grant less
};

class Socket {
 public:
  // The first of `addresses` that can be bound (or connected to, and does not refuse a datagram at
  // once, unless all do) is taken. Both throw Error(transport); `given` is the address as the user
  // wrote it.
  static Socket bound(const std::vector<SocketAddress>& addresses, const std::string& given,
                      const Options& options);
  static Socket connected(const std::vector<SocketAddress>& addresses, const std::string& given,
                          const Options& options);
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&&) = delete;

  int fd() const { return fd_; }
  bool segmentation() const { return segmentation_; }
  bool receive_offload() const { return receive_offload_; }
  bool any_local() const { return any_local_; }  // messages say to which address they came
  size_t receive_buffer_bytes() const;           // as the kernel counts them, bookkeeping included
  uint64_t receive_drops() const;                // since the socket was made
  // What its route carries in a frame of ours: of a connected one; of others the most of any link.
  size_t longest_frame() const;
  size_t choices() const { return choices_; }  // how many addresses it could be connected to
  SocketAddress local() const;
  SocketAddress peer() const;

 private:
  Socket(int family, const Options& options);
  bool refused() const;

  int fd_ = -1;
  size_t choices_ = 1;
  bool segmentation_ = false, receive_offload_ = false, any_local_ = false;
};

}  // namespace drlnet::udp
