#include "xdp.h"

#include <dirent.h>
#include <dlfcn.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <string_view>

namespace drlnet::dpdk {
namespace {

// Declared as in the headers of libbpf and libxdp, which are needed for nothing else.
using Print = int (*)(int level, const char* format, va_list arguments);
using SetPrint = Print (*)(Print);

int to_log(int level, const char* format, va_list arguments) {
  constexpr int kWarning = 0;
  if (level != kWarning) return 0;
  std::array<char, 512> line;
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_EAL, "%s", line.data());
  return length;
}

void redirect(const char* library, const char* symbol) {
  // Loaded by the driver, or not at all: then it says nothing. Kept: it may call back at any time.
  void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return;
  if (const auto set = reinterpret_cast<SetPrint>(dlsym(handle, symbol))) set(to_log);
}

}  // namespace

void quiet_xdp() {
  redirect("libbpf.so.1", "libbpf_set_print");
  redirect("libbpf.so.0", "libbpf_set_print");
  redirect("libxdp.so.1", "libxdp_set_print");
}

void keep_to_umem(rte_mempool* pool) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(STAILQ_FIRST(&pool->mem_list)->addr);
  const uint32_t object_bytes = rte_mempool_calc_obj_size(pool->elt_size, pool->flags, nullptr);
  const uintptr_t begin = start / page * page;
  const uintptr_t end = start + uintptr_t{pool->populated_size} * object_bytes;
  std::vector<rte_mbuf*> packets(rte_mempool_avail_count(pool));
  if (rte_pktmbuf_alloc_bulk(pool, packets.data(), static_cast<unsigned>(packets.size())) != 0) {
    return;  // not fresh
  }
  for (rte_mbuf* packet : packets) {
    const uintptr_t object = reinterpret_cast<uintptr_t>(packet) - pool->header_size;
    if (object >= begin && object + object_bytes <= end) rte_pktmbuf_free(packet);
  }
}

std::vector<XdpSocket> xdp_sockets() {
  std::vector<XdpSocket> found;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = folder != nullptr ? readdir(folder) : nullptr) {
    const std::string_view name(entry->d_name);
    int fd = -1, domain = 0;
    if (std::from_chars(name.begin(), name.end(), fd).ec != std::errc{}) continue;
    socklen_t length = sizeof domain;
    struct stat facts{};
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_XDP &&
        fstat(fd, &facts) == 0) {
      found.push_back({fd, facts.st_ino});
    }
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

std::vector<XdpSocket> opened_between(const std::vector<XdpSocket>& before,
                                      const std::vector<XdpSocket>& after) {
  std::vector<XdpSocket> opened;
  std::ranges::copy_if(after, std::back_inserter(opened), [&](const XdpSocket& socket) {
    return std::ranges::find(before, socket) == before.end();
  });
  return opened;
}

void close_left(const std::vector<XdpSocket>& sockets) {
  for (const XdpSocket& open : xdp_sockets()) {
    if (std::ranges::find(sockets, open) != sockets.end()) close(open.fd);
  }
}

}  // namespace drlnet::dpdk
