#include "nic.h"

#include "base/error.h"

namespace drlnet::dpdk {

void check_nic(const NicAddress& address) {
  const std::string& shown = address.shown;
  const link::IpAddress& ip = address.ip.address;
  if (ip == link::IpAddress{}) malformed_nic(shown, "it needs an IP address of its own, ip=...");
  if (address.to && address.to->v4() != ip.v4())
    malformed_nic(shown, "ip and to are of two families");
  if (kernel_answers_for(ip)) {
    throw Error(Status::transport, shown + ": the kernel answers for " + ip.text(),
                "Choose a free address on that network.");
  }
  if (address.driver == NicDriver::af_xdp && carries_default_route(address.device)) {
    throw Error(Status::transport,
                shown + ": " + address.device +
                    " carries the default route, and af_xdp takes its whole queue",
                "Choose another interface, or dpdk:af_packet, which leaves the kernel its frames.");
  }
  if (address.driver != NicDriver::pci) kernel_mtu(address.device, shown);  // is it there, and up?
}

}  // namespace drlnet::dpdk
