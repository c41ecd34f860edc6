// A port on a device, and what to do when the interface below it goes and comes back.
#include <poll.h>
#include <rte_cycles.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "nic.h"
#include "rendezvous.h"
#include "transport.h"
#include "xdp.h"

namespace drlnet::dpdk {
namespace {

constexpr uint16_t kNicDescriptors = 1024;
// Between two virtual interfaces the kernel queues no more frames for an XDP program than this, and
// drops the rest: more must not be under way.
constexpr uint16_t kXdpDescriptors = 256;
constexpr size_t kSpareBuffers = 1024;  // reserved, received and cached ones, beside the rings'
// A frame of af_xdp lies in one page, with its descriptor and the kernel's headroom; a pool pads
// what it holds to an odd number of cache lines: 63 of a page's 64.
constexpr uint16_t kXdpMtu = 3400;
constexpr size_t kXdpBufferBytes = 3648;

constexpr uint16_t kLargestMtu = 9000;
constexpr uint64_t kQueuePatienceNs = 1'000'000'000;
constexpr uint64_t kLookMs = 10;       // between looks whether the interface is still there
constexpr uint64_t kComeBackMs = 200;  // between attempts to open it again

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

// What is particular to a driver: the device's name and arguments, and the size of buffers.
struct Device {
  PortOptions port;
  uint16_t mtu = 0;
  size_t buffer_bytes = kBufferBytes;
  bool aligned_payload = true;
  link::Checksums checksums = link::Checksums::headers;
  bool copies_sent = false;  // as InterfaceOptions has it
  bool own_mac = false;
};

Device device_of(const NicAddress& address) {
  static std::atomic<unsigned> count{0};
  const std::string suffix = std::to_string(count++);
  Device device;
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
      device.port.device = "net_af_packet" + suffix;
      device.port.arguments =
          "iface=" + address.device + ",qpairs=1,qdisc_bypass=1" + ring.arguments();
      break;
    }
    case NicDriver::af_xdp:
      device.mtu = std::min(kernel_mtu(address.device, address.shown), kXdpMtu);
      device.buffer_bytes = kXdpBufferBytes;
      device.aligned_payload = false;  // the driver works out where a buffer begins
      device.port.descriptors = kXdpDescriptors;
      device.port.device = "net_af_xdp" + suffix;
      device.port.arguments =
          "iface=" + address.device + ",start_queue=0,queue_count=1,busy_budget=0";
      break;
    case NicDriver::pci:
      device.mtu = 1500;
      device.port.bus = "pci";
      device.port.device = address.device;
      device.port.queues = address.queues;
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

std::unique_ptr<Pool> make_pool(const NicAddress& address, const Device& device) {
  // Some devices (vmxnet3) fill two rings for each queue that they receive on.
  const size_t rings = kNicDescriptors * (1u + 2u * device.port.queues);
  auto pool = std::make_unique<Pool>(rings + kSpareBuffers, device.buffer_bytes,
                                     device.aligned_payload, address.shown);
  if (address.driver == NicDriver::af_xdp) keep_to_umem(pool->get());
  return pool;
}

// On the kernel's interface, whose filter is told of the groups by the kernel.
struct KernelLink final : Link {
  explicit KernelLink(Descriptor joined) : groups(std::move(joined)) {}
  Descriptor groups;
};

// A MAC address beside the interface's, the same at every start: the kernel drops frames for it at
// its door. For those to the interface's own it would look for a route, a quarter of what a frame
// takes it, and where it forwards, send them on a second time.
link::MacAddress mac_of_our_own(const link::MacAddress& interface, const link::IpAddress& ip) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const uint8_t byte : interface.bytes) add(byte);
  for (const uint8_t byte : ip.bytes) add(byte);
  link::MacAddress mac;
  std::memcpy(mac.bytes.data(), &hash, mac.bytes.size());
  constexpr unsigned kGroup = 1, kLocal = 2;
  mac.bytes[0] = static_cast<uint8_t>((mac.bytes[0] & ~kGroup) | kLocal);
  return mac;
}

std::unique_ptr<Link> open_link(const NicAddress& address, const Device& device, uint16_t udp_port,
                                Pool& pool) {
  InterfaceOptions options;
  options.address = address.ip;
  options.udp_port = udp_port;
  options.mtu = device.mtu;
  options.checksums = device.checksums;
  options.gateway = address.gateway;
  auto port = std::make_unique<Port>(device.port, pool);
  options.copies_sent = device.copies_sent;
  if (device.own_mac) options.mac = mac_of_our_own(port->mac(), address.ip.address);
  std::unique_ptr<Link> link;
  if (address.driver == NicDriver::pci) {
    link = std::make_unique<Link>();
  } else {
    const auto groups = link::listened_groups(address.ip.address);
    link = std::make_unique<KernelLink>(join_groups(address.device, groups, address.shown));
  }
  link->interface = std::make_unique<Interface>(std::move(port), options);
  link->interface->announce(pool.get());
  return link;
}

// An interface that a port of this process has. A second one would take frames of the first: the
// kernel deals them out among the af_packet sockets of one process (the driver joins them in a
// PACKET_FANOUT group), and af_xdp's queue has one owner.
class Occupied {
 public:
  explicit Occupied(const NicAddress& address) : interface_(address.device) {
    std::lock_guard lock(mutex());
    if (!all().insert(interface_).second) {
      throw Error(Status::transport,
                  address.shown + ": this process has " + interface_ + " already",
                  "Use one client for all of it, or another process.");
    }
  }
  ~Occupied() {
    std::lock_guard lock(mutex());
    all().erase(interface_);
  }
  Occupied(const Occupied&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::set<std::string>& all() {
    static std::set<std::string> all;
    return all;
  }
  std::string interface_;
};

// Closes the port when its interface goes (af_packet: or is set down), and opens it when it is
// back: the drivers would stay with the one that is no more.
class NicKeeper final : public LinkKeeper {
 public:
  NicKeeper(const NicAddress& address, Device device, uint16_t udp_port, Pool& pool)
      : address_(address),
        occupied_(address),
        device_(std::move(device)),
        udp_port_(udp_port),
        pool_(&pool),
        kernel_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    opened_index_ = index();
    open_first();
  }

  bool changed() override {
    if (arriving_) return true;
    const uint64_t now = rte_rdtsc();
    if (now < next_look_) return false;
    next_look_ = now + kLookMs * rte_get_tsc_hz() / 1000;
    return index() != opened_index_;
  }

  void apply(std::vector<std::unique_ptr<Link>>& links) override {
    links.resize(1);
    if (!arriving_) {
      links[0].reset();
      opened_index_ = 0;
      if (const int now_there = index(); now_there != 0) {
        try {
          renew_pool();
          arriving_ = open_link(address_, device_, udp_port_, *pool_);
          opened_index_ = now_there;
          trouble_.clear();
        } catch (const Error& error) {
          // It may be half made yet. Callers have deadlines, and their errors say what is wrong.
          trouble_ = error.cause();
          next_look_ = rte_rdtsc() + kComeBackMs * rte_get_tsc_hz() / 1000;
          return;
        }
      } else {
        trouble_ = address_.device + " is down or gone";
      }
    }
    if (arriving_) links[0] = std::move(arriving_);
  }

  std::unique_ptr<Pool> fresh_pool() override { return is_open() ? std::move(fresh_) : nullptr; }
  void close(std::vector<std::unique_ptr<Link>>& links) override { links.clear(); }
  int wake_fd() const override { return -1; }
  std::string trouble() const override { return trouble_; }

 private:
  void open_first() {
    // The kernel frees the queue of an af_xdp socket some time after its owner has ended.
    for (const uint64_t deadline = now_ns() + kQueuePatienceNs;; renew_pool()) {
      try {
        arriving_ = open_link(address_, device_, udp_port_, *pool_);
        return;
      } catch (const Error& error) {
        if (address_.driver != NicDriver::af_xdp) throw;
        if (geteuid() != 0 || now_ns() >= deadline) {
          throw Error(error.status(), error.cause(),
                      "It takes root, an MTU of at most 3498 on both ends of a veth pair, and an "
                      "interface that no other XDP program has.");
        }
      }
      ::poll(nullptr, 0, kLookMs);
    }
  }

  bool is_open() const { return opened_index_ != 0; }
  // A closed af_xdp port keeps the buffers that it had given the kernel to fill.
  void renew_pool() {
    if (address_.driver != NicDriver::af_xdp) return;
    fresh_ = make_pool(address_, device_);
    pool_ = fresh_.get();
  }
  int index() const {
    // af_xdp outlives an interface set down, and the kernel lets no second one have its queue.
    if (address_.driver == NicDriver::af_xdp && opened_index_ != 0 &&
        kernel_index(kernel_.get(), address_.device) == opened_index_) {
      return opened_index_;
    }
    return kernel_index_when_up(kernel_.get(), address_.device);
  }

  NicAddress address_;
  Occupied occupied_;
  Device device_;
  uint16_t udp_port_;
  Pool* pool_;
  std::unique_ptr<Pool> fresh_;
  Descriptor kernel_;  // of the network namespace in which the interface is
  std::unique_ptr<Link> arriving_;
  int opened_index_ = 0;
  uint64_t next_look_ = 0;
  std::string trouble_;
};

std::unique_ptr<Transport> open(const NicAddress& address, uint16_t udp_port, std::string shown) {
  check_nic(address);
  Device device = device_of(address);
  Environment::get(address.driver == NicDriver::pci ? address.device : "");
  if (address.driver == NicDriver::af_xdp) quiet_xdp();
  auto pool = make_pool(address, device);
  std::unique_ptr<Link> link;
  std::unique_ptr<LinkKeeper> keeper;
  if (address.driver == NicDriver::pci) {
    link = open_link(address, device, udp_port, *pool);
  } else {
    keeper = std::make_unique<NicKeeper>(address, std::move(device), udp_port, *pool);
  }
  return std::make_unique<DpdkTransport>(std::move(pool), std::move(link), std::move(keeper),
                                         std::move(shown));
}

}  // namespace

std::unique_ptr<Transport> listen_nic(const NicAddress& address) {
  return open(address, address.port, address.shown);
}

Connected connect_nic(const NicAddress& address) {
  if (!address.to) malformed_nic(address.shown, "a client needs the server's address, to=IP:PORT");
  // A port of our own for each client of this process and, by its number, each process.
  static std::atomic<uint32_t> count{0};
  const uint32_t spread = static_cast<uint32_t>(getpid()) * 31 + count++;
  const auto udp_port = static_cast<uint16_t>(49152 + spread % 16384);
  PeerAddress server;
  server.ip = *address.to;
  server.port = address.to_port;
  return {open(address, udp_port, address.shown), to_endpoint(server)};
}

}  // namespace drlnet::dpdk
