#include "nic_device.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "crossbar.h"
#include "nic.h"
#include "xdp.h"

namespace drlnet::dpdk {
namespace {

constexpr uint16_t kNicDescriptors = 1024;
// Between two virtual interfaces the kernel queues no more frames for an XDP program than this, and
// drops the rest: more must not be under way.
constexpr uint16_t kXdpDescriptors = 256;
constexpr size_t kSpareBuffers = 1024;  // each transport's reserved, received and cached ones
// A frame of af_xdp lies in one page, with its descriptor and the kernel's headroom; a pool pads
// what it holds to an odd number of cache lines: 63 of a page's 64.
constexpr uint16_t kXdpMtu = 3400;
constexpr size_t kXdpBufferBytes = 3648;

constexpr uint16_t kLargestMtu = 9000;
constexpr uint16_t kMostPacketSockets = 16;  // of one port, in the driver

// The kernel's ring of an af_packet socket; the driver has one of the same size for each direction.
struct PacketRing {
  // The driver takes a block for whole slots and the kernel one for whole pages: four slots of such
  // units are both.
  static constexpr uint32_t kSlotsPerBlock = 4, kSlotUnit = 1024;
  // TPACKET2_HDRLEN, what the kernel aligns, the Ethernet header and a tag.
  static constexpr uint32_t kHeaderBytes = 96;
  // Slots are filled one after the other, however few are in use: between the ends of a pair, which
  // empty them at once, both rings stay in the cores' own caches. But a burst has to fit.
  static constexpr uint32_t kPairBytes = 1 << 19, kPairMinSlots = 64;

  PacketRing(uint32_t mtu, bool pair)
      : slot_bytes((mtu + kHeaderBytes + kSlotUnit - 1) / kSlotUnit * kSlotUnit),
        slots(pair ? std::max(kPairMinSlots,
                              kPairBytes / slot_bytes / kSlotsPerBlock * kSlotsPerBlock)
                   : kNicDescriptors) {}

  std::string arguments() const {
    return ",framesz=" + std::to_string(slot_bytes) +
           ",blocksz=" + std::to_string(kSlotsPerBlock * slot_bytes) +
           ",framecnt=" + std::to_string(slots);
  }

  uint32_t slot_bytes, slots;
};

}  // namespace

NicDevice nic_device(const NicAddress& address, uint16_t transports) {
  NicDevice device;
  device.port.queues = address.queues != 0 ? address.queues : transports;
  device.port.shown = address.shown;
  device.port.descriptors = kNicDescriptors;
  switch (address.driver) {
    case NicDriver::af_packet: {
      device.mtu = std::min<uint16_t>(kernel_mtu(address.device, address.shown), kLargestMtu);
      const bool pair = is_veth(address.device);
      const PacketRing ring(device.mtu, pair);
      device.buffer_bytes = ring.slot_bytes;  // the driver wants buffers of that size
      device.copies_sent = true;
      device.own_mac = pair;
      device.port.descriptors = static_cast<uint16_t>(ring.slots);
      // A socket for each, among which the kernel deals out flows.
      device.port.queues = std::min(device.port.queues, kMostPacketSockets);
      device.port.send_queues = device.port.queues;
      device.port.device = "net_af_packet";
      device.port.arguments = "iface=" + address.device +
                              ",qpairs=" + std::to_string(device.port.queues) + ",qdisc_bypass=1" +
                              ring.arguments();
      break;
    }
    case NicDriver::af_xdp:
      device.mtu = std::min(kernel_mtu(address.device, address.shown), kXdpMtu);
      device.buffer_bytes = kXdpBufferBytes;
      device.aligned_payload = false;  // the driver works out where a buffer begins
      device.port.descriptors = kXdpDescriptors;
      device.port.queues = std::min(device.port.queues, kernel_channels(address.device));
      device.port.send_queues = device.port.queues;
      device.port.device = "net_af_xdp";
      device.port.arguments = "iface=" + address.device +
                              ",start_queue=0,queue_count=" + std::to_string(device.port.queues) +
                              ",busy_budget=0";
      break;
    case NicDriver::pci:
      device.mtu = 1500;
      device.port.bus = "pci";
      device.port.device = address.device;
      device.port.send_queues = transports;
      device.checksums = link::Checksums::full;
      break;
  }
  if (address.mtu != 0) {
    if (address.driver != NicDriver::pci && address.mtu > device.mtu) {
      throw Error(Status::transport,
                  address.shown + ": " + address.device + " takes packets of at most " +
                      std::to_string(device.mtu) + " bytes",
                  "Run `ip link set " + address.device + " mtu N` on both ends, or leave mtu out.");
    }
    device.mtu = address.mtu;
  }
  constexpr uint16_t kSmallestMtu = 1280;  // IPv6's, and room for the smallest frame of a session
  if (device.mtu < kSmallestMtu) {
    throw Error(Status::transport,
                address.shown + ": an MTU of " + std::to_string(device.mtu) + " is too small",
                "It takes 1280 at least: run `ip link set " + address.device + " mtu 1500`.");
  }
  if (address.driver == NicDriver::pci) {
    device.port.mtu = device.mtu;
    device.port.groups = link::listened_groups(address.ip.address);
  }
  if (!address.arguments.empty()) {
    device.port.arguments += (device.port.arguments.empty() ? "" : ",") + address.arguments;
  }
  return device;
}

std::shared_ptr<Pool> make_pool(const NicDevice& device, NicDriver driver, uint16_t transports,
                                uint16_t crossbar_rings) {
  // Some devices (vmxnet3) fill two rings for each queue that they receive on.
  const size_t rings =
      size_t{kNicDescriptors} * (device.port.send_queues + 2u * device.port.queues) +
      size_t{Crossbar::kRingFrames} * crossbar_rings;
  auto pool = std::make_shared<Pool>(rings + kSpareBuffers * transports, device.buffer_bytes,
                                     device.aligned_payload, device.port.shown);
  if (driver == NicDriver::af_xdp) keep_to_umem(pool->get());
  return pool;
}

}  // namespace drlnet::dpdk
