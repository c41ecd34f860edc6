// The module's entry, and which address belongs to which kind of link.
#include "local.h"
#include "nic.h"
#include "transport/dpdk_module.h"

namespace drlnet::dpdk {
namespace {

std::unique_ptr<Transport> listen(const std::string& rest, uint32_t shards) {
  const Address address = parse_address(rest);
  const auto* local = std::get_if<LocalAddress>(&address);
  return local ? listen_local(*local) : listen_nic(std::get<NicAddress>(address), shards);
}

Connected connect(const std::string& rest) {
  const Address address = parse_address(rest);
  const auto* local = std::get_if<LocalAddress>(&address);
  return local ? connect_local(*local) : connect_nic(std::get<NicAddress>(address));
}

}  // namespace
}  // namespace drlnet::dpdk

extern "C" __attribute__((visibility("default"))) const drlnet::dpdk::Module* drlnet_dpdk_module() {
  static constexpr drlnet::dpdk::Module kModule = {drlnet::dpdk::kModuleVersion,
                                                   drlnet::dpdk::listen, drlnet::dpdk::connect};
  return &kModule;
}
