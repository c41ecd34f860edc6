// A host of its own on a real link: "af_packet:IFACE,ip=10.7.0.2/24", "af_xdp:IFACE,ip=...",
// "pci:0000:3b:00.0,ip=...". A client adds to=10.7.0.2:7447. More settings: port, gateway, mtu,
// queues (pci), args (of the device, as DPDK's devargs, ; for ,).
#pragma once

#include <optional>
#include <string>

#include "interface.h"

namespace drlnet::dpdk {

enum class NicDriver { af_packet, af_xdp, pci };

struct NicAddress {
  NicDriver driver{};
  std::string device;  // an interface of the kernel's, or a PCI address
  link::Subnet ip;
  uint16_t port = 7447;
  std::optional<link::IpAddress> gateway, to;
  uint16_t to_port = 7447;
  uint16_t mtu = 0;  // 0: the interface's; 1500 on PCI
  uint16_t queues = 1;
  std::string arguments;
  std::string shown;
};

// Throws Error(transport), with the setting that is wrong.
NicAddress parse_nic(const std::string& rest);

// Throws Error(transport) where the address is one that cannot be had on this machine.
void check_nic(const NicAddress& address);
[[noreturn]] void malformed_nic(const std::string& shown, const std::string& what);

std::unique_ptr<Transport> listen_nic(const NicAddress& address);
Connected connect_nic(const NicAddress& address);

// What the kernel knows of an interface. Throws Error(transport) when there is none of that name.
uint16_t kernel_mtu(const std::string& interface, const std::string& shown);
// Its number while it is there (and up), else 0. An interface made anew has another number.
int kernel_index(int socket_fd, const std::string& interface);
int kernel_index_when_up(int socket_fd, const std::string& interface);
bool kernel_answers_for(const link::IpAddress& ip);
bool carries_default_route(const std::string& interface);

}  // namespace drlnet::dpdk
