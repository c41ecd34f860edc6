#include "vhost_library.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace drlnet::fuzz {

VhostLibrary& vhost_library() {
  static VhostLibrary instance;
  return instance;
}
}  // namespace drlnet::fuzz

using drlnet::fuzz::vhost_library;
using drlnet::fuzz::VhostLibrary;

int rte_vhost_driver_register(const char*, uint64_t) { return 0; }
int rte_vhost_driver_disable_features(const char*, uint64_t) { return 0; }
int rte_vhost_driver_callback_register(const char*, const rte_vhost_device_ops* operations) {
  vhost_library().device = operations;
  return 0;
}
int rte_vhost_driver_start(const char*) { return 0; }
int rte_vhost_driver_unregister(const char*) { return 0; }
int rte_vhost_extern_callback_register(int, const rte_vhost_user_extern_ops* operations, void*) {
  vhost_library().messages = operations;
  return 0;
}

int rte_vhost_get_ifname(int, char* path, size_t bytes) {
  return std::snprintf(path, bytes, "%s", VhostLibrary::kPath) < 0;
}
int rte_vhost_get_negotiated_features(int, uint64_t* features) {
  *features = vhost_library().features;
  return 0;
}
int rte_vhost_get_mem_table(int, rte_vhost_memory** table) {
  const auto& regions = vhost_library().regions;
  const size_t bytes = regions.size() * sizeof regions[0];
  *table = static_cast<rte_vhost_memory*>(std::malloc(sizeof(rte_vhost_memory) + bytes));
  (*table)->nregions = static_cast<uint32_t>(regions.size());
  std::memcpy((*table)->regions, regions.data(), bytes);
  return 0;
}
int rte_vhost_get_vhost_vring(int, uint16_t ring, rte_vhost_vring* addresses) {
  *addresses = vhost_library().rings[ring].addresses;
  return 0;
}
int rte_vhost_get_vring_base(int, uint16_t ring, uint16_t* next, uint16_t* used) {
  *next = *used = vhost_library().rings[ring].position;
  return 0;
}
int rte_vhost_set_vring_base(int, uint16_t ring, uint16_t next, uint16_t) {
  vhost_library().rings[ring].position = next;
  return 0;
}
