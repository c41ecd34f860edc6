#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "nic.h"

namespace drlnet::dpdk {

uint16_t kernel_mtu(const std::string& interface, const std::string& shown) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool known = fd >= 0 && interface.size() < IFNAMSIZ && ioctl(fd, SIOCGIFMTU, &request) == 0;
  const int mtu = request.ifr_mtu;
  ifreq flags = request;
  const bool up = known && ioctl(fd, SIOCGIFFLAGS, &flags) == 0 && (flags.ifr_flags & IFF_UP) != 0;
  if (fd >= 0) close(fd);
  if (!known) {
    throw Error(Status::transport, shown + ": no interface is called " + interface,
                "See `ip link`; inside a network namespace there are others.");
  }
  if (!up) {
    throw Error(Status::transport, shown + ": " + interface + " is down",
                "Run `ip link set " + interface + " up`.");
  }
  return static_cast<uint16_t>(mtu > 65535 ? 65535 : mtu);
}

int kernel_index(int fd, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return ioctl(fd, SIOCGIFINDEX, &request) == 0 ? request.ifr_ifindex : 0;
}

int kernel_index_when_up(int fd, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd, SIOCGIFFLAGS, &request) != 0 || (request.ifr_flags & IFF_UP) == 0) return 0;
  return kernel_index(fd, interface);
}

Descriptor join_groups(const std::string& interface, std::span<const link::MacAddress> groups,
                       const std::string& shown) {
  if (groups.empty()) return Descriptor();
  // Bound to no protocol: it receives nothing, and the kernel counts its memberships.
  Descriptor packets(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  bool joined = packets.get() >= 0;
  packet_mreq membership{};
  membership.mr_type = PACKET_MR_MULTICAST;
  membership.mr_ifindex = joined ? kernel_index(packets.get(), interface) : 0;
  for (size_t i = 0; i < groups.size() && joined; ++i) {
    membership.mr_alen = static_cast<uint16_t>(groups[i].bytes.size());
    std::memcpy(membership.mr_address, groups[i].bytes.data(), groups[i].bytes.size());
    joined = setsockopt(packets.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership,
                        sizeof membership) == 0;
  }
  if (joined) return packets;
  throw Error(
      Status::transport,
      shown + ": cannot have " + interface + " pass on IPv6's groups: " + std::strerror(errno),
      "That takes privileges: run as root.");
}

namespace {

// Fills in what ethtool's command of that number tells; false where the interface does not say.
template <typename Facts>
bool ask_ethtool(const std::string& interface, uint32_t command, Facts& facts) {
  facts.cmd = command;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&facts);
  const Descriptor kernel(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return kernel.get() >= 0 && ioctl(kernel.get(), SIOCETHTOOL, &request) == 0;
}

}  // namespace

bool is_veth(const std::string& interface) {
  ethtool_drvinfo info{};
  return ask_ethtool(interface, ETHTOOL_GDRVINFO, info) && std::string_view(info.driver) == "veth";
}

uint16_t kernel_channels(const std::string& interface) {
  ethtool_channels channels{};
  const bool known = ask_ethtool(interface, ETHTOOL_GCHANNELS, channels);
  return static_cast<uint16_t>(std::max(1u, known ? channels.combined_count : 0u));
}

bool kernel_answers_for(const link::IpAddress& ip) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  bool found = false;
  for (const ifaddrs* entry = list; entry != nullptr && !found; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address;
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      found = link::IpAddress::from_v4(ntohl(address.sin_addr.s_addr)) == ip;
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 address;
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      link::IpAddress other;
      std::memcpy(other.bytes.data(), &address.sin6_addr, other.bytes.size());
      found = other == ip;
    }
  }
  freeifaddrs(list);
  return found;
}

bool carries_default_route(const std::string& interface) {
  std::ifstream v4("/proc/net/route");
  std::string line;
  std::getline(v4, line);  // the heading
  while (std::getline(v4, line)) {
    std::istringstream words(line);
    std::string name, destination;
    if (words >> name >> destination && name == interface && destination == "00000000") return true;
  }
  std::ifstream v6("/proc/net/ipv6_route");
  while (std::getline(v6, line)) {
    // destination prefix source prefix next-hop metric references use flags interface
    std::istringstream words(line);
    std::string fields[10];
    for (std::string& field : fields) words >> field;
    const unsigned long flags = std::strtoul(fields[8].c_str(), nullptr, 16);
    constexpr unsigned long kReject = 0x200;
    if (fields[9] == interface && fields[1] == "00" && (flags & kReject) == 0 &&
        fields[0].find_first_not_of('0') == std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace drlnet::dpdk
