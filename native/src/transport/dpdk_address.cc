#include "transport/dpdk_address.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace drlnet::dpdk {

const char* local_driver_name(LocalDriver driver) {
  return driver == LocalDriver::memif ? "memif" : "virtio-user";
}

void malformed_nic(const std::string& shown, const std::string& what) {
  throw Error(Status::transport, shown + ": " + what,
              "An address looks like dpdk:af_packet:eth1,ip=10.7.0.2/24 or "
              "dpdk:pci:0000:3b:00.0,ip=10.7.0.2/24; a client adds to=10.7.0.1:7447.");
}

namespace {

constexpr size_t kLargestMtu = 9000;

uint16_t number(const std::string& shown, const std::string& key, std::string_view text,
                uint16_t largest = 65535) {
  uint16_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > largest) {
    malformed_nic(shown, key + "=" + std::string(text) + " is not a number from 1 to " +
                             std::to_string(largest));
  }
  return value;
}

link::IpAddress ip_of(const std::string& shown, const std::string& key, std::string_view text) {
  const auto ip = link::IpAddress::parse(text);
  if (!ip) malformed_nic(shown, key + "=" + std::string(text) + " is not an IP address");
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
    if (!subnet) malformed_nic(address.shown, "ip=" + value + " is not an IP address");
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
    malformed_nic(address.shown,
                  "invalid setting \"" + key + "\" (ip, port, to, gateway, mtu, queues, args)");
  }
}

struct LocalKind {
  std::string_view name;
  std::optional<LocalDriver> driver;
};
constexpr std::array<LocalKind, 3> kLocalKinds = {
    {{"local", {}}, {"memif", LocalDriver::memif}, {"virtio-user", LocalDriver::virtio_user}}};
struct NicKind {
  std::string_view name;
  NicDriver driver;
};
constexpr std::array<NicKind, 3> kNicKinds = {
    {{"af_packet", NicDriver::af_packet}, {"af_xdp", NicDriver::af_xdp}, {"pci", NicDriver::pci}}};

std::string_view kind_of(std::string_view rest) { return rest.substr(0, rest.find(':')); }

LocalAddress parse_local(const std::string& rest, const LocalKind& kind) {
  const size_t colon = rest.find(':');
  const std::string name = colon == std::string::npos ? kDefaultLocalName : rest.substr(colon + 1);
  const std::string shown = "dpdk:" + rest;
  const auto fine = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_';
  };
  if (name.empty() || !std::ranges::all_of(name, fine)) {
    throw Error(Status::transport, shown + ": \"" + name + "\" cannot be a name",
                "Use letters, digits, - and _.");
  }
  return {kind.driver, name, shown};
}

[[noreturn]] void throw_unknown(const std::string& rest) {
  throw Error(Status::transport,
              "dpdk:" + rest + ": no DPDK link is called \"" + std::string(kind_of(rest)) + "\"",
              "Use dpdk:local, dpdk:memif, dpdk:virtio-user, dpdk:af_packet:IFACE,ip=..., "
              "dpdk:af_xdp:IFACE,ip=... or dpdk:pci:ADDRESS,ip=...");
}

NicAddress parse_nic(const std::string& rest, const NicKind& kind) {
  NicAddress address;
  address.shown = "dpdk:" + rest;
  address.driver = kind.driver;
  const size_t colon = rest.find(':');
  std::string settings = colon == std::string::npos ? "" : rest.substr(colon + 1);
  size_t comma = settings.find(',');
  address.device = settings.substr(0, comma);
  if (address.device.empty()) malformed_nic(address.shown, "it names no device");
  while (comma != std::string::npos) {
    settings.erase(0, comma + 1);
    comma = settings.find(',');
    const std::string setting = settings.substr(0, comma);
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      malformed_nic(address.shown, "\"" + setting + "\" has no value");
    read_setting(address, setting.substr(0, equals), setting.substr(equals + 1));
  }
  return address;
}

}  // namespace

Address parse_address(const std::string& rest) {
  const std::string_view kind = kind_of(rest);
  const auto local = std::ranges::find(kLocalKinds, kind, &LocalKind::name);
  if (local != kLocalKinds.end()) return parse_local(rest, *local);
  const auto nic = std::ranges::find(kNicKinds, kind, &NicKind::name);
  if (nic != kNicKinds.end()) return parse_nic(rest, *nic);
  throw_unknown(rest);
}

std::string shard_of_nic(const std::string& rest, const NicAddress& first, uint32_t shard) {
  const uint32_t port = (first.to ? first.to_port : first.port) + shard;
  if (port > 65535) {
    throw Error(Status::transport,
                first.shown + ": shard " + std::to_string(shard) + " has no port above it",
                "Choose a lower port: a server's shards listen on the ports behind it.");
  }
  return nic_to(rest, first, "", port);
}

std::string nic_to(const std::string& rest, const NicAddress& nic, const std::string& host,
                   uint32_t port) {
  const std::string replaced = nic.to ? "to=" : "port=";
  std::string result;
  for (size_t begin = 0, end; begin < rest.size(); begin = end) {
    end = std::min(rest.find(',', begin + 1), rest.size());  // a part begins with its comma
    const std::string part = rest.substr(begin, end - begin);
    if (!part.starts_with("," + replaced)) result += part;
  }
  result += "," + replaced;
  if (nic.to) {
    const std::string own = nic.to->v4() ? nic.to->text() : "[" + nic.to->text() + "]";
    result += (host.empty() ? own : host) + ":";
  }
  return result + std::to_string(port);
}

bool is_local(const std::string& rest) {
  const std::string_view kind = kind_of(rest);
  if (std::ranges::find(kLocalKinds, kind, &LocalKind::name) != kLocalKinds.end()) return true;
  if (std::ranges::find(kNicKinds, kind, &NicKind::name) == kNicKinds.end()) throw_unknown(rest);
  return false;
}

}  // namespace drlnet::dpdk
