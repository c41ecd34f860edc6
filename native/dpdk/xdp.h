// What DPDK's driver of AF_XDP leaves to others.
#pragma once

#include <rte_mempool.h>
#include <sys/types.h>

#include <vector>

namespace drlnet::dpdk {

// What the libraries below the driver print on standard error goes to DPDK's log instead. After the
// environment's start, before the first port.
void quiet_xdp();

// Takes buffers out of a fresh pool and keeps them: those beyond the memory that DPDK before 24.03
// tells the kernel of, which is as much as the buffers fill when they lie close together. They do
// not, none crosses a page. What is sent in one beyond is lost without a word.
void keep_to_umem(rte_mempool* pool);

// AF_XDP sockets that this process has open.
struct XdpSocket {
  int fd;
  ino_t inode;
  bool operator==(const XdpSocket&) const = default;
};
std::vector<XdpSocket> xdp_sockets();
// Those of `after` that were not there before.
std::vector<XdpSocket> opened_between(const std::vector<XdpSocket>& before,
                                      const std::vector<XdpSocket>& after);
// Closes those of them that are still open: DPDK 22.11 forgets to, and the kernel lets no other
// socket have the queue.
void close_left(const std::vector<XdpSocket>& sockets);

}  // namespace drlnet::dpdk
