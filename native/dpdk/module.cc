// The module's entry, and which address belongs to which kind of link.
#include "base/error.h"
#include "local.h"
#include "nic.h"
#include "transport/dpdk_module.h"

namespace drlnet::dpdk {
namespace {

// "local", "local:NAME"; also "memif" and "virtio-user".
std::optional<LocalAddress> parse_local(const std::string& rest) {
  const size_t colon = rest.find(':');
  const std::string kind = rest.substr(0, colon);
  LocalAddress address;
  if (kind == local_driver_name(LocalDriver::memif)) {
    address.driver = LocalDriver::memif;
  } else if (kind == local_driver_name(LocalDriver::virtio_user)) {
    address.driver = LocalDriver::virtio_user;
  } else if (kind != "local") {
    return std::nullopt;
  }
  address.name = colon == std::string::npos ? kDefaultLocalName : rest.substr(colon + 1);
  address.shown = "dpdk:" + rest;
  return address;
}

std::unique_ptr<Transport> listen(const std::string& rest) {
  const auto local = parse_local(rest);
  return local ? listen_local(*local) : listen_nic(parse_nic(rest));
}

Connected connect(const std::string& rest) {
  const auto local = parse_local(rest);
  return local ? connect_local(*local) : connect_nic(parse_nic(rest));
}

}  // namespace
}  // namespace drlnet::dpdk

extern "C" __attribute__((visibility("default"))) const drlnet::dpdk::Module* drlnet_dpdk_module() {
  static constexpr drlnet::dpdk::Module kModule = {drlnet::dpdk::kModuleVersion,
                                                   drlnet::dpdk::listen, drlnet::dpdk::connect};
  return &kModule;
}
