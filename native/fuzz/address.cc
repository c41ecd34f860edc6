// Addresses as users type them: what is wrong with one is said in one line of cause and one of
// remedy; what passes is what was typed.
#include "base/assert.h"
#include "base/error.h"
#include "fuzz.h"
#include "transport/dpdk_address.h"
#include "transport/udp_address.h"

namespace drlnet::fuzz {
namespace {

template <typename Parse>
void expect_address_or_error(const Parse& parse) {
  try {
    parse();
  } catch (const Error& error) {
    DRLNET_ASSERT(error.status() == Status::transport);
    DRLNET_ASSERT(!error.cause().empty() && !error.remedy().empty());
  }
}

void check_ip(const link::IpAddress& ip) {
  const auto again = link::IpAddress::parse(ip.text());
  DRLNET_ASSERT(again && *again == ip);
}

void check(const dpdk::LocalAddress& address) {
  DRLNET_ASSERT(!address.name.empty());
  DRLNET_ASSERT(address.name.find_first_of(std::string_view("/.\0", 3)) == std::string::npos);
}

void check(const dpdk::NicAddress& address) {
  DRLNET_ASSERT(!address.device.empty() && address.device.find(',') == std::string::npos);
  DRLNET_ASSERT(address.port != 0 && address.to_port != 0 && address.queues <= 64);
  DRLNET_ASSERT(address.ip.contains(address.ip.address) || address.ip.address == link::IpAddress{});
  check_ip(address.ip.address);
  if (address.to) check_ip(*address.to);
  if (address.gateway) check_ip(*address.gateway);
}

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> list;
  for (const std::string_view text :
       {"127.0.0.1:7447", "[::1]:7447", "host", "host:1", "[fe80::1%eth0]:65535", "local",
        "local:name-0_Z", "memif:0", "virtio-user:0", "af_packet:eth1,ip=10.7.0.2/24,port=1",
        "af_xdp:eth1,ip=fd00::2/64,to=[fd00::1]:7447,gateway=fd00::3,mtu=3400",
        "pci:0000:3b:00.0,ip=10.7.0.2,to=10.7.0.1:7447,queues=64,mtu=9000,args=a=1;b=2"}) {
    const auto bytes = std::as_bytes(std::span(text));
    list.emplace_back(bytes.begin(), bytes.end());
  }
  return list;
}

void run(std::span<const std::byte> input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  expect_address_or_error(
      [&] { std::visit([](const auto& address) { check(address); }, dpdk::parse_address(text)); });
  expect_address_or_error([&] { DRLNET_ASSERT(!udp::parse_address(text).host.empty()); });
  if (const auto subnet = link::Subnet::parse(text))
    DRLNET_ASSERT(subnet->contains(subnet->address));
  // The other transports and what names none: .
  if (text.find(':') == std::string::npos) {
    expect_address_or_error([&] { is_loopback(text); });
  }
}

}  // namespace drlnet::fuzz
