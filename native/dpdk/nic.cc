#include "nic.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <map>

#include "base/error.h"
#include "transport.h"

namespace drlnet::dpdk {
namespace {

constexpr uint16_t kNicDescriptors = 1024;
constexpr size_t kSpareBuffers = 1024;  // reserved, received and cached ones, beside the rings'
constexpr size_t kLargestMtu = 9000;
// A frame of af_xdp lies in one page, with its descriptor and the kernel's headroom.
constexpr uint16_t kXdpMtu = 3400;
constexpr size_t kXdpBufferBytes = 3712;

[[noreturn]] void malformed(const std::string& shown, const std::string& what) {
  throw Error(Status::transport, shown + ": " + what,
              "An address looks like dpdk:af_packet:eth1,ip=10.7.0.2/24 or "
              "dpdk:pci:0000:3b:00.0,ip=10.7.0.2/24; a client adds to=10.7.0.1:7447.");
}

uint16_t number(const std::string& shown, const std::string& key, std::string_view text,
                uint16_t largest = 65535) {
  uint16_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > largest) {
    malformed(shown,
              key + "=" + std::string(text) + " is no number from 1 to " + std::to_string(largest));
  }
  return value;
}

link::IpAddress ip_of(const std::string& shown, const std::string& key, std::string_view text) {
  const auto ip = link::IpAddress::parse(text);
  if (!ip) malformed(shown, key + "=" + std::string(text) + " is no IP address");
  return *ip;
}

// "10.7.0.2:7447", "10.7.0.2", "[fd00::2]:7447", "fd00::2".
void read_to(NicAddress& address, std::string text) {
  const size_t bracket = text.find(']'), colon = text.rfind(':');
  const bool v6 = std::count(text.begin(), text.end(), ':') > 1;
  if (colon != std::string::npos && (!v6 || (bracket != std::string::npos && colon > bracket))) {
    address.to_port = number(address.shown, "to", text.substr(colon + 1));
    text.resize(colon);
  }
  if (!text.empty() && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  address.to = ip_of(address.shown, "to", text);
}

void read_setting(NicAddress& address, const std::string& key, const std::string& value) {
  if (key == "ip") {
    const auto subnet = link::Subnet::parse(value);
    if (!subnet) malformed(address.shown, "ip=" + value + " is no IP address");
    address.ip = *subnet;
  } else if (key == "port") {
    address.port = number(address.shown, key, value);
  } else if (key == "gateway") {
    address.gateway = ip_of(address.shown, key, value);
  } else if (key == "to") {
    read_to(address, value);
  } else if (key == "mtu") {
    address.mtu = number(address.shown, key, value, kLargestMtu);
  } else if (key == "queues") {
    address.queues = number(address.shown, key, value, 64);
  } else if (key == "args") {
    address.arguments = value;
    std::replace(address.arguments.begin(), address.arguments.end(), ';', ',');
  } else {
    malformed(address.shown,
              "\"" + key + "\" is no setting (ip, port, to, gateway, mtu, queues, args)");
  }
}

void check(const NicAddress& address) {
  const std::string& shown = address.shown;
  const link::IpAddress& ip = address.ip.address;
  if (ip == link::IpAddress{}) malformed(shown, "it needs an IP address of its own, ip=...");
  if (address.to && address.to->v4() != ip.v4()) malformed(shown, "ip and to are of two families");
  if (kernel_answers_for(ip)) {
    throw Error(Status::transport, shown + ": the kernel answers for " + ip.text(),
                "Choose an address on that network that nobody has.");
  }
  if (address.driver == NicDriver::af_xdp && carries_default_route(address.device)) {
    throw Error(Status::transport,
                shown + ": " + address.device +
                    " carries the default route, and af_xdp takes its whole queue",
                "Choose another interface, or dpdk:af_packet, which leaves the kernel its frames.");
  }
}

// What is particular to a driver: the device's name and arguments, and the size of buffers.
struct Device {
  PortOptions port;
  uint16_t mtu = 0;
  size_t buffer_bytes = kBufferBytes;
  bool aligned_payload = true;
  link::Checksums checksums = link::Checksums::headers;
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
      // The kernel's ring has slots of one size, and the driver wants buffers of that size.
      const bool jumbo = device.mtu > 1900;
      device.buffer_bytes = jumbo ? 16384 : 2048;
      device.port.device = "net_af_packet" + suffix;
      device.port.arguments = "iface=" + address.device + ",qpairs=1,qdisc_bypass=1" +
                              (jumbo ? ",framesz=16384,blocksz=65536,framecnt=1024"
                                     : ",framesz=2048,blocksz=65536,framecnt=2048");
      break;
    }
    case NicDriver::af_xdp:
      device.mtu = std::min(kernel_mtu(address.device, address.shown), kXdpMtu);
      device.buffer_bytes = kXdpBufferBytes;
      device.aligned_payload = false;  // the driver works out where a buffer begins
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
  if (address.driver == NicDriver::pci) device.port.mtu = device.mtu;
  if (!address.arguments.empty()) {
    device.port.arguments += (device.port.arguments.empty() ? "" : ",") + address.arguments;
  }
  return device;
}

std::unique_ptr<Transport> open(const NicAddress& address, uint16_t udp_port, std::string shown) {
  check(address);
  const Device device = device_of(address);
  Environment::get(address.driver == NicDriver::pci ? address.device : "");
  // Some devices (vmxnet3) fill two rings for each queue that they receive on.
  const size_t rings = kNicDescriptors * (1u + 2u * device.port.queues);
  auto pool = std::make_unique<Pool>(rings + kSpareBuffers, device.buffer_bytes,
                                     device.aligned_payload, address.shown);
  InterfaceOptions options;
  options.address = address.ip;
  options.udp_port = udp_port;
  options.mtu = device.mtu;
  options.checksums = device.checksums;
  options.gateway = address.gateway;
  auto link = std::make_unique<Link>();
  link->interface =
      std::make_unique<Interface>(std::make_unique<Port>(device.port, *pool), options);
  return std::make_unique<DpdkTransport>(std::move(pool), std::move(link), nullptr,
                                         std::move(shown));
}

}  // namespace

NicAddress parse_nic(const std::string& rest) {
  static const std::map<std::string, NicDriver> kDrivers = {
      {"af_packet", NicDriver::af_packet}, {"af_xdp", NicDriver::af_xdp}, {"pci", NicDriver::pci}};
  NicAddress address;
  address.shown = "dpdk:" + rest;
  const size_t colon = rest.find(':');
  address.driver = kDrivers.at(rest.substr(0, colon));
  std::string settings = colon == std::string::npos ? "" : rest.substr(colon + 1);
  size_t comma = settings.find(',');
  address.device = settings.substr(0, comma);
  if (address.device.empty()) malformed(address.shown, "it names no device");
  while (comma != std::string::npos) {
    settings.erase(0, comma + 1);
    comma = settings.find(',');
    const std::string setting = settings.substr(0, comma);
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) malformed(address.shown, "\"" + setting + "\" has no value");
    read_setting(address, setting.substr(0, equals), setting.substr(equals + 1));
  }
  return address;
}

std::unique_ptr<Transport> listen_nic(const NicAddress& address) {
  return open(address, address.port, address.shown);
}

Connected connect_nic(const NicAddress& address) {
  if (!address.to) malformed(address.shown, "a client needs the server's address, to=IP:PORT");
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
