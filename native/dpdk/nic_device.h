// What is particular to each driver of a NIC: the device's name and arguments, its queues and the
// size of buffers.
#pragma once

#include <memory>

#include "eal_port.h"
#include "transport/dpdk_address.h"
#include "transport/link/packet.h"

namespace drlnet::dpdk {

struct NicDevice {
  PortOptions port;
  uint16_t mtu = 0;
  size_t buffer_bytes = kBufferBytes;
  bool aligned_payload = true;
  link::Checksums checksums = link::Checksums::headers;
  bool copies_sent = false;  // as InterfaceOptions has it
  bool own_mac = false;
};

// With a queue for each of that many transports, as far as the device has them, unless the address
// asks for another number. Throws Error(transport).
NicDevice nic_device(const NicAddress& address, uint16_t transports);
// Buffers for that device's rings, for that many transports and as many full rings of a crossbar.
std::shared_ptr<Pool> make_pool(const NicDevice& device, NicDriver driver, uint16_t transports,
                                uint16_t crossbar_rings);

}  // namespace drlnet::dpdk
