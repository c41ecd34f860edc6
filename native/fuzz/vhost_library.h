// In the place of DPDK's vhost library: what it would have agreed on with a client's process, and
// mapped of it. Of a client that means harm only what the library checks holds.
#pragma once

#include <rte_vhost.h>

#include <array>
#include <cstdint>
#include <vector>

namespace drlnet::fuzz {

struct VhostLibrary {
  static constexpr int kDevice = 0;
  static constexpr char kPath[] = "vhost";  // where it listens

  uint64_t features = 0;
  std::vector<rte_vhost_mem_region> regions;
  struct Ring {
    rte_vhost_vring addresses{};
    uint16_t position = 0;
  };
  std::array<Ring, 2> rings;
  // The callbacks that the port registered.
  const rte_vhost_device_ops* device = nullptr;
  const rte_vhost_user_extern_ops* messages = nullptr;
};
VhostLibrary& vhost_library();

}  // namespace drlnet::fuzz
