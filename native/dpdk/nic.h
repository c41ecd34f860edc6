// A host of its own on a real link.
#pragma once

#include <string>

#include "interface.h"
#include "rendezvous.h"
#include "transport/dpdk_address.h"

namespace drlnet::dpdk {

// Throws Error(transport) where the address is one that cannot be had on this machine.
void check_nic(const NicAddress& address);

// shards: how many of them share the device, this one at its place among their ports.
std::unique_ptr<Transport> listen_nic(const NicAddress& address, uint32_t shards);
Connected connect_nic(const NicAddress& address);

// What the kernel knows of an interface. Throws Error(transport) when there is none of that name.
uint16_t kernel_mtu(const std::string& interface, const std::string& shown);
// How many queues af_xdp can have there: what the interface calls combined channels, or one.
uint16_t kernel_channels(const std::string& interface);
// Its number while it is there (and up), else 0. An interface made anew has another number.
int kernel_index(int socket_fd, const std::string& interface);
int kernel_index_when_up(int socket_fd, const std::string& interface);
// Has the interface pass on frames to these groups while the descriptor is open. Throws
// Error(transport) without the privilege.
Descriptor join_groups(const std::string& interface, std::span<const link::MacAddress> groups,
                       const std::string& shown);
// One end of a pair: what is sent on it reaches the other end in memory, unfiltered.
bool is_veth(const std::string& interface);
bool kernel_answers_for(const link::IpAddress& ip);
bool carries_default_route(const std::string& interface);

}  // namespace drlnet::dpdk
