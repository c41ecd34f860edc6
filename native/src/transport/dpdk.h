// Kernel bypass. Addresses: "local[:NAME]" (shared memory between processes of this machine;
// "memif" and "virtio-user" name the driver), "af_packet:IFACE,ip=...", "af_xdp:IFACE,ip=...",
// "pci:0000:3b:00.0,ip=...". The work is done by a module that is loaded on first use.
#pragma once

#include "transport/transport.h"

namespace drlnet::dpdk {

std::unique_ptr<Transport> listen(const std::string& rest, uint32_t shards);
Connected connect(const std::string& rest);
bool is_loopback(const std::string& rest);
// Under names of their own; on a NIC at ports of their own.
std::string shard(const std::string& rest, uint32_t shard);
std::string at(const std::string& rest, const std::string& host, uint16_t port);

}  // namespace drlnet::dpdk
