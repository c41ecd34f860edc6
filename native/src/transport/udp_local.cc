#include "transport/udp_local.h"

#include <algorithm>
#include <cstring>

namespace drlnet::udp {

void add_control(msghdr& header, int level, int type, const void* value, size_t bytes) {
  auto* control = reinterpret_cast<cmsghdr*>(static_cast<std::byte*>(header.msg_control) +
                                             header.msg_controllen);
  control->cmsg_level = level;
  control->cmsg_type = type;
  control->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(control), value, bytes);
  header.msg_controllen += CMSG_SPACE(bytes);
}

uint8_t LocalAddresses::number_of(const in6_addr& address) {
  const auto found = std::ranges::find_if(list_, [&](const in6_addr& known) {
    return std::memcmp(&known, &address, sizeof known) == 0;
  });
  if (found == list_.end()) {
    if (list_.size() == kMost) return 0;
    list_.push_back(address);
    return static_cast<uint8_t>(list_.size());
  }
  return static_cast<uint8_t>(found - list_.begin() + 1);
}

void LocalAddresses::read(const msghdr& header, Endpoint& from) {
  uint8_t number = 0;
  auto* message = const_cast<msghdr*>(&header);
  for (cmsghdr* control = CMSG_FIRSTHDR(message); control != nullptr;
       control = CMSG_NXTHDR(message, control)) {
    in6_addr address{};
    if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(control), sizeof info);
      std::memcpy(&address, &info.ipi_spec_dst, sizeof info.ipi_spec_dst);
      number = number_of(address);
    } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info;
      std::memcpy(&info, CMSG_DATA(control), sizeof info);
      number = number_of(info.ipi6_addr);
    }
  }
  from.bytes[kLocalNumberAt] = static_cast<std::byte>(number);
}

void LocalAddresses::write(const Endpoint& to, msghdr& header) const {
  const auto number = static_cast<size_t>(to.bytes[kLocalNumberAt]);
  if (number == 0 || number > list_.size()) return;
  const in6_addr& address = list_[number - 1];
  sa_family_t family;
  std::memcpy(&family, to.bytes.data(), sizeof family);
  if (family == AF_INET) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, &address, sizeof info.ipi_spec_dst);
    add_control(header, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
  } else {
    in6_pktinfo info{};
    info.ipi6_addr = address;
    add_control(header, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
  }
}

}  // namespace drlnet::udp
