// What both ends of a shared-memory link agree on without asking: devices and addresses.
#pragma once

#include "base/wake_fd.h"
#include "local.h"
#include "transport.h"

namespace drlnet::dpdk {

// Not memif: when one end dies, its driver unmaps memory at the other end on a thread of DPDK's
// own, while ours may be reading there (DPDK 22.11). Of servers on one core, one crashed at some
// 200 busy clients that were killed; of busy clients, one in 12 when the server was. vhost waits
// for ours.
constexpr LocalDriver kDefaultLocalDriver = LocalDriver::virtio_user;
// Rings reuse their buffers in order: those of 512 frames are more than a core's cache holds (2 MiB
// here), and moved a quarter fewer bytes per second. 128 moved a few percent more, but hold no
// more than what 32 sample requests bring unasked.
constexpr uint16_t kLocalDescriptors = 256;
constexpr uint16_t kLocalUdpPort = 7447;
constexpr uint16_t kLocalMtu = 9000;
constexpr int kServerEnd = 0, kClientEnd = 1;

// The addresses of a link's ends, of the client with that number. Link-local (RFC 3927): they mean
// something on this link only.
link::Host local_host(int end, uint32_t number);

// Before a link is closed whose other end has gone: memif's interrupt thread lets go of the shared
// memory by itself, and closing the device at that moment would do it twice.
void let_driver_notice(Interface& interface, LocalDriver driver);
// Before a link is closed whose other end is still there: says so, and gives it time to stop
// looking into memory that memif's interrupt thread will take away.
void wait_until_let_go(int connection, LocalDriver driver);

// Attaches the device of one end and makes it a host. The server's end of virtio-user wakes its
// reader when the ends have agreed, for frames that were sent before. Throws Error(transport).
std::unique_ptr<Interface> open_local(int end, LocalDriver driver, const std::string& path,
                                      uint32_t number, uint16_t slot, uint32_t generation,
                                      Pool& pool, const std::string& shown, WakeFd* reader);

}  // namespace drlnet::dpdk
