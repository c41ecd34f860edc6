// What the core asks of the DPDK module: a shared object of its own, loaded when an address first
// asks for DPDK, so that nothing else ever loads DPDK. Both are built from one tree.
#pragma once

#include "transport/transport.h"

namespace drlnet::dpdk {

struct Module {
  uint32_t version;  // kModuleVersion of the tree it was built from
  std::unique_ptr<Transport> (*listen)(const std::string& rest, uint32_t shards);
  Connected (*connect)(const std::string& rest);
};
constexpr uint32_t kModuleVersion = 3;
// The module's only symbol: const Module* drlnet_dpdk_module().
constexpr const char* kModuleSymbol = "drlnet_dpdk_module";

}  // namespace drlnet::dpdk
