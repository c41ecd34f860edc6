#include "nic_shared.h"

#include <atomic>
#include <cstring>
#include <map>
#include <tuple>

#include "base/error.h"
#include "nic.h"
#include "xdp.h"

namespace drlnet::dpdk {
namespace {

constexpr uint16_t kClientPlaces = 64;  // as many sessions as a client of 64 shards has
// This many of a client's sessions may leave the frames that others received for them lying;
// beyond, some are lost and sent again.
constexpr uint16_t kClientRings = 1;

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

}  // namespace

std::shared_ptr<Nic> Nic::get(const NicAddress& address, uint16_t transports) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Nic>> all;  // by device
  const std::lock_guard lock(mutex);
  std::shared_ptr<Nic> nic = all[address.device].lock();
  if (!nic) {
    nic = std::make_shared<Nic>(address, transports);
    all[address.device] = nic;
  } else if (!nic->fits(address, transports)) {
    // A port of its own would take frames of the first: the kernel deals them out among all the
    // af_packet sockets of one process (the driver joins them in a PACKET_FANOUT group), and a
    // queue of af_xdp or PCI has one owner.
    throw Error(Status::transport,
                address.shown + ": this process has " + address.device + " with other settings",
                "Let all that it does there have the same ones but port and to, or use another "
                "process.");
  }
  return nic;
}

Nic::Nic(const NicAddress& address, uint16_t transports)
    : address_(address),
      transports_(transports),
      device_(nic_device(address, std::max<uint16_t>(1, transports))),
      crossbar_(transports == 0 ? kClientPlaces : transports) {
  Environment::get(address.driver == NicDriver::pci ? address.device : "");
  if (address.driver == NicDriver::af_xdp) quiet_xdp();
}

bool Nic::fits(const NicAddress& other, uint16_t transports) const {
  const auto settings = [](const NicAddress& address) {
    return std::tie(address.driver, address.ip, address.gateway, address.mtu, address.queues,
                    address.arguments);
  };
  return transports == transports_ && settings(other) == settings(address_);
}

size_t Nic::join(uint16_t udp_port, const std::string& shown) {
  const std::lock_guard lock(mutex_);
  const bool taken = crossbar_.has(udp_port);
  const size_t member = taken ? crossbar_.size() : crossbar_.join(udp_port, shown);
  if (member < crossbar_.size()) return member;
  throw Error(Status::transport,
              shown + ": this process has " +
                  (taken ? "that port of " + address_.device + " already"
                         : "as many transports on " + address_.device + " as share it"),
              "Listen once on each device: a server's shards take the ports behind its own.");
}

void Nic::leave(size_t member) {
  const std::lock_guard lock(mutex_);
  crossbar_.leave(member);
}

Nic::Opened Nic::open(size_t member, uint16_t udp_port, int interface_index) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<EalPort> port = port_on(interface_index);
  InterfaceOptions options;
  options.address = address_.ip;
  options.udp_port = udp_port;
  options.mtu = device_.mtu;
  options.checksums = device_.checksums;
  options.gateway = address_.gateway;
  options.copies_sent = device_.copies_sent;
  options.mac = device_.own_mac ? mac_of_our_own(port->mac(), address_.ip.address) : port->mac();
  std::unique_ptr<Link> link;
  if (address_.driver == NicDriver::pci) {
    link = std::make_unique<Link>();
  } else {
    const auto groups = link::listened_groups(address_.ip.address);
    link = std::make_unique<KernelLink>(join_groups(address_.device, groups, address_.shown));
  }
  link->interface = std::make_unique<Interface>(share(std::move(port), member), options);
  link->interface->announce(pools_.back()->get());
  return {std::move(link), pools_.back()};
}

std::shared_ptr<EalPort> Nic::port_on(int interface_index) {
  std::shared_ptr<EalPort> port = port_.lock();
  // One whose interface is gone may be held by a member that has not looked since: it is left
  // alone.
  if (port && port_index_ == interface_index) return port;
  // A closed af_xdp port keeps the buffers that it had given the kernel to fill.
  const bool fresh = pools_.empty() || address_.driver == NicDriver::af_xdp;
  const uint16_t rings = transports_ == 0 ? kClientRings : transports_ > 1 ? transports_ : 0;
  const std::shared_ptr<Pool> pool =
      fresh ? make_pool(device_, address_.driver, std::max<uint16_t>(1, transports_), rings)
            : pools_.back();
  PortOptions options = device_.port;
  static std::atomic<unsigned> count{0};
  if (options.bus == "vdev") options.device += std::to_string(count++);
  port = std::make_shared<EalPort>(options, *pool);
  if (fresh) {
    if (!crossbar_.ever_shared()) pools_.clear();
    pools_.push_back(pool);
  }
  port_ = port;
  port_index_ = interface_index;
  return port;
}

PortShare Nic::share(std::shared_ptr<Port> port, size_t member) {
  const uint16_t queues = port->queues(), send_queues = port->send_queues();
  if (transports_ == 1) return PortShare(std::move(port));
  if (transports_ == 0) return {std::move(port), {0, 1, true}, {0, 1, true}, crossbar_, member};
  return {std::move(port), QueueSet::deal(queues, member, transports_),
          QueueSet::deal(send_queues, member, transports_), crossbar_, member};
}

}  // namespace drlnet::dpdk
