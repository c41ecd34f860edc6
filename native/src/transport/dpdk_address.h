// What follows "dpdk:" in an address. Needs no DPDK.
//
// Shared memory between processes of one machine: "local", "local:NAME"; "memif" and "virtio-user"
// name the driver. A host of its own on a real link: "af_packet:IFACE,ip=10.7.0.2/24",
// "af_xdp:IFACE,ip=...", "pci:0000:3b:00.0,ip=..."; a client adds to=10.7.0.2:7447. More settings:
// port, gateway, mtu, queues (to receive on), args (of the device, as DPDK's devargs, ; for ,). Of
// a setting given twice the second one counts.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "transport/link/address.h"

namespace drlnet::dpdk {

enum class LocalDriver : uint32_t { virtio_user = 0, memif = 1 };
const char* local_driver_name(LocalDriver driver);  // as addresses have it

constexpr const char* kDefaultLocalName = "default";
constexpr const char* kShardSuffix = "-shard";  // and its number: where another shard is met

struct LocalAddress {
  std::optional<LocalDriver> driver;  // nothing: the default of the server
  std::string name;                   // "0": a fresh one
  std::string shown;                  // as the user wrote it
};

enum class NicDriver { af_packet, af_xdp, pci };

struct NicAddress {
  NicDriver driver{};
  std::string device;  // an interface of the kernel's, or a PCI address
  link::Subnet ip;
  uint16_t port = 7447;
  std::optional<link::IpAddress> gateway, to;
  uint16_t to_port = 7447;
  uint16_t mtu = 0;     // 0: the interface's; 1500 on PCI
  uint16_t queues = 0;  // 0: one for each of a server's shards
  std::string arguments;
  std::string shown;
};

using Address = std::variant<LocalAddress, NicAddress>;

// Throws Error(transport), with the part that is wrong.
Address parse_address(const std::string& rest);
[[noreturn]] void malformed_nic(const std::string& shown, const std::string& what);

// Where that shard is, as udp::shard() has it: at the UDP port that much higher on the same host.
// Throws Error(transport) when there is none.
std::string shard_of_nic(const std::string& rest, const NicAddress& first, uint32_t shard);
// The same address but for the port, and for the host where one is given: a client's server, or
// where a server listens.
std::string nic_to(const std::string& rest, const NicAddress& nic, const std::string& host,
                   uint32_t port);

// Only processes of this machine can meet at such an address. Looks at its first word alone, and
// throws Error(transport) for one that names no link.
bool is_local(const std::string& rest);

}  // namespace drlnet::dpdk
