#include "transport/dpdk.h"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "transport/dpdk_address.h"
#include "transport/dpdk_module.h"

namespace drlnet::dpdk {
namespace {

constexpr const char* kFileName = "libdrlnet_dpdk.so";

// Beside whatever holds this code: the extension, or a test's build folder above it.
std::string find_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&is_loopback), &info) == 0) return {};
  std::error_code ignored;  // of a folder that cannot be read: then the file is not there for us
  const auto folder = std::filesystem::canonical(info.dli_fname, ignored).parent_path();
  for (const auto& place : {folder, folder.parent_path()}) {
    if (std::filesystem::exists(place / kFileName, ignored)) return place / kFileName;
  }
  return {};
}

const Module& load(const std::string& rest) {
  static std::mutex mutex;
  static const Module* module = nullptr;
  std::lock_guard lock(mutex);
  if (module != nullptr) return *module;
  const std::string path = find_file();
  if (path.empty()) {
    throw Error(
        Status::transport, "this build of drlnet has no DPDK transport (dpdk:" + rest + ")",
        "Install DPDK (apt-get install dpdk-dev pkgconf) and drlnet anew (pip install .), or use "
        "udp://HOST:PORT.");
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(
        Status::transport, std::string("DPDK cannot be loaded: ") + dlerror(),
        "Install DPDK's libraries (apt-get install dpdk-dev pkgconf), or use udp://HOST:PORT.");
  }
  using Entry = const Module* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, kModuleSymbol));
  if (entry == nullptr || entry()->version != kModuleVersion) {
    throw Error(Status::transport, path + " belongs to another version of drlnet",
                "Install drlnet anew: pip install --force-reinstall .");
  }
  module = entry();
  return *module;
}

}  // namespace

std::unique_ptr<Transport> listen(const std::string& rest, uint32_t shards) {
  parse_address(rest);  // what is wrong with it is said without DPDK too
  return load(rest).listen(rest, shards);
}

Connected connect(const std::string& rest) {
  parse_address(rest);  // what is wrong with it is said without DPDK too
  return load(rest).connect(rest);
}

bool is_loopback(const std::string& rest) { return is_local(rest); }

std::string at(const std::string& rest, const std::string& host, uint16_t port) {
  const Address address = parse_address(rest);
  const auto* nic = std::get_if<NicAddress>(&address);
  if (nic == nullptr) return "udp://" + host + ":" + std::to_string(port);
  return "dpdk:" + nic_to(rest, *nic, host, port);
}

std::string shard(const std::string& rest, uint32_t shard) {
  const Address address = parse_address(rest);
  if (const auto* nic = std::get_if<NicAddress>(&address)) return shard_of_nic(rest, *nic, shard);
  return rest.substr(0, rest.find(':')) + ":" + std::get<LocalAddress>(address).name +
         kShardSuffix + std::to_string(shard);
}

}  // namespace drlnet::dpdk
