// Where a socket is bound to all addresses of its machine: which of them peers have dialled. What
// goes back to a peer has to leave from the address that it dialled, or its connected socket drops
// it. An Endpoint has no room for two IPv6 addresses, so it names the local one by a number.
// Threading: one thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "transport/transport.h"

namespace drlnet::udp {

constexpr size_t kLocalNumberAt = 28;  // within an Endpoint, behind the peer's address

class LocalAddresses {
 public:
  // More than a machine has, but for those that own whole ranges; of such the later ones are 0.
  static constexpr size_t kMost = 255;
  static constexpr size_t kControlBytes = CMSG_SPACE(sizeof(in6_pktinfo));

  LocalAddresses() { list_.reserve(kMost); }

  // Notes in `from` which address the message with this header came to; 0 where it does not say.
  // No allocation. O(addresses dialled).
  void read(const msghdr& header, Endpoint& from);
  // Appends what makes the message leave from the address that `to` notes; nothing for 0.
  void write(const Endpoint& to, msghdr& header) const;

 private:
  uint8_t number_of(const in6_addr& address);

  std::vector<in6_addr> list_;  // of number 1 first; IPv4 addresses lie in the first four bytes
};

// Appends a control message to those of the header, whose msg_control has room for it.
void add_control(msghdr& header, int level, int type, const void* value, size_t bytes);

}  // namespace drlnet::udp
