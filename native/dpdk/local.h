// "dpdk:local": shared memory between processes of one machine, without privileges. Each client has
// a link of its own, by memif or by vhost and virtio-user.
#pragma once

#include <memory>

#include "transport/dpdk_address.h"
#include "transport/transport.h"

namespace drlnet::dpdk {

std::unique_ptr<Transport> listen_local(const LocalAddress& address);
Connected connect_local(const LocalAddress& address);

}  // namespace drlnet::dpdk
