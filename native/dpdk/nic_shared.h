// A NIC of this process, and what the transports on it have in common: a server's shards, or the
// sessions of its clients. They are one host with a UDP port each. The port is theirs together, and
// each receives and sends through its share of it (port_share.h).
//
// An interface may go and come back while they run. No transport then waits for another: each lets
// go of its share when it sees that (its port's last one closes it), and the first one that sees
// the interface again opens a port for all. What lies between is here, behind a mutex that only
// opening and joining take. Threading: any thread.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "crossbar.h"
#include "nic_device.h"
#include "transport.h"

namespace drlnet::dpdk {

class Nic {
 public:
  // That of the address's device, made by the transport that asks first. transports: how many a
  // server has, a queue for each where the device has as many; 0: clients', which take turns at all
  // of its queues, since none of them looks for frames all the time. Throws Error(transport) also
  // where the process has that device with other settings.
  static std::shared_ptr<Nic> get(const NicAddress& address, uint16_t transports);

  Nic(const NicAddress& address, uint16_t transports);

  // Gives the transport with that UDP port its place. Throws Error(transport) when there is none.
  size_t join(uint16_t udp_port, const std::string& shown);
  void leave(size_t member);

  struct Opened {
    std::unique_ptr<Link> link;
    std::shared_ptr<Pool> pool;
  };
  // The member's link through the port on the interface of that number (any on PCI): the others',
  // or a new one. Throws Error(transport).
  Opened open(size_t member, uint16_t udp_port, int interface_index);

 private:
  bool fits(const NicAddress& address, uint16_t transports) const;
  std::shared_ptr<EalPort> port_on(int interface_index);
  PortShare share(std::shared_ptr<Port> port, size_t member);

  const NicAddress address_;
  const uint16_t transports_;
  const NicDevice device_;
  std::mutex mutex_;
  // The last one is the port's. Buffers of those before it may be with any member that does not
  // look, so that all stay: one for each time that an af_xdp interface came back to several
  // members. The crossbar, with the frames in its rings, goes first.
  std::vector<std::shared_ptr<Pool>> pools_;
  Crossbar crossbar_;
  std::weak_ptr<EalPort> port_;
  int port_index_ = 0;  // of the interface that it was opened on
};

// A transport's place on it.
class NicMember {
 public:
  NicMember(std::shared_ptr<Nic> nic, uint16_t udp_port, const std::string& shown)
      : nic_(std::move(nic)), member_(nic_->join(udp_port, shown)), udp_port_(udp_port) {}
  ~NicMember() { nic_->leave(member_); }
  NicMember(const NicMember&) = delete;
  Nic::Opened open(int interface_index) { return nic_->open(member_, udp_port_, interface_index); }

 private:
  const std::shared_ptr<Nic> nic_;
  const size_t member_;
  const uint16_t udp_port_;
};

}  // namespace drlnet::dpdk
