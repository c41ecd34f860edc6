// One EAL port, physical or virtual: attached, configured and started when it is made, closed when
// it is destroyed. Threading: made and destroyed on any thread (the work runs on the
// environment's).
#pragma once

#include <rte_ethdev.h>

#include "environment.h"
#include "port.h"
#include "transport/link/address.h"
#include "xdp.h"

namespace drlnet::dpdk {

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

class EalPort final : public Port {
 public:
  EalPort(const PortOptions& options, Pool& pool);  // throws Error(transport)
  ~EalPort() override;

  size_t receive(uint16_t queue, std::span<rte_mbuf*> packets) override {
    return rte_eth_rx_burst(id_, queue, packets.data(), static_cast<uint16_t>(packets.size()));
  }
  size_t send(uint16_t queue, std::span<rte_mbuf*> packets) override {
    return rte_eth_tx_burst(id_, queue, packets.data(), static_cast<uint16_t>(packets.size()));
  }
  link::MacAddress mac() const;
  bool link_up() const override;
  uint64_t missed() const override;

 private:
  void attach(const PortOptions& options);
  void configure(const PortOptions& options, rte_mempool* pool);
  void listen_to_groups(const PortOptions& options);
  void close();

  uint16_t id_ = RTE_MAX_ETHPORTS;
  std::string bus_, device_;
  std::vector<XdpSocket> xdp_sockets_;
};

}  // namespace drlnet::dpdk
