// One EAL port, physical or virtual: attached, configured and started when it is made, closed when
// it is destroyed. Threading: made and destroyed on any thread (the work runs on the
// environment's); each queue on one thread at a time, or by receive_in_turn() and send_in_turn().
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "environment.h"
#include "transport/link/address.h"
#include "xdp.h"

namespace drlnet::dpdk {

// Bytes of a frame that a buffer holds: a 9,000-byte MTU and more.
constexpr size_t kBufferBytes = 9216;

// Packet buffers, shared by the ports of one transport, or by the transports of one port.
// Threading: any thread; fast on registered ones.
class Pool {
 public:
  // aligned_payload: buffers are shifted so that a UDP payload over IPv4 begins a cache line; not
  // for drivers that work out buffers' addresses by themselves. Throws Error(transport).
  Pool(size_t buffers, size_t buffer_bytes, bool aligned_payload, const std::string& shown);
  rte_mempool* get() const { return pool_.get(); }

 private:
  std::unique_ptr<rte_mempool, decltype(&rte_mempool_free)> pool_{nullptr, &rte_mempool_free};
};

struct PortOptions {
  std::string bus = "vdev";              // or "pci"
  std::string device;                    // "net_memif0", "0000:3b:00.0"
  std::string arguments;                 // of the device, as DPDK's devargs
  uint16_t descriptors = 512;            // of each ring; the driver adjusts it
  uint16_t mtu = 0;                      // 0: leave the driver's
  uint16_t queues = 1;                   // to receive on; more than one: flows are spread (RSS)
  uint16_t send_queues = 1;              // as many as that, or what the device has
  std::vector<link::MacAddress> groups;  // whose frames are received, too
  std::string shown;                     // the address as the user wrote it, for errors
};

class Port {
 public:
  Port(const PortOptions& options, Pool& pool);  // throws Error(transport)
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  size_t receive(uint16_t queue, std::span<rte_mbuf*> packets) {
    return rte_eth_rx_burst(id_, queue, packets.data(), static_cast<uint16_t>(packets.size()));
  }
  size_t send(uint16_t queue, std::span<rte_mbuf*> packets) {
    return rte_eth_tx_burst(id_, queue, packets.data(), static_cast<uint16_t>(packets.size()));
  }
  // On a queue that several threads use. Nothing is received while another one is at it.
  size_t receive_in_turn(uint16_t queue, std::span<rte_mbuf*> packets);
  size_t send_in_turn(uint16_t queue, std::span<rte_mbuf*> packets);
  uint16_t id() const { return id_; }
  uint16_t queues() const { return queues_; }
  uint16_t send_queues() const { return send_queues_; }
  link::MacAddress mac() const;
  bool link_up() const;
  uint16_t receive_descriptors() const { return receive_descriptors_; }
  bool verifies_checksums() const { return verifies_checksums_; }
  // Frames that the device dropped for want of a buffer or a descriptor.
  uint64_t missed() const;

 private:
  void attach(const PortOptions& options);
  void configure(const PortOptions& options, rte_mempool* pool);
  void listen_to_groups(const PortOptions& options);
  void close();

  uint16_t id_ = RTE_MAX_ETHPORTS;
  std::string bus_, device_;
  std::vector<XdpSocket> xdp_sockets_;
  struct alignas(64) Turn {
    rte_spinlock_t lock = RTE_SPINLOCK_INITIALIZER;
  };
  uint16_t queues_ = 1, send_queues_ = 1;
  std::vector<Turn> receive_turns_, send_turns_;  // by queue
  uint16_t receive_descriptors_ = 0;
  bool verifies_checksums_ = false;
};

}  // namespace drlnet::dpdk
