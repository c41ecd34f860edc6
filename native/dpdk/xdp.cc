#include "xdp_log.h"

#include <dlfcn.h>
#include <rte_log.h>

#include <array>
#include <cstdarg>
#include <cstdio>

namespace drlnet::dpdk {
namespace {

// As libbpf and libxdp declare it, whose headers this needs for nothing else.
using Print = int (*)(int level, const char* format, va_list arguments);
using SetPrint = Print (*)(Print);

int to_log(int level, const char* format, va_list arguments) {
  constexpr int kWarning = 0;
  if (level != kWarning) return 0;
  std::array<char, 512> line;
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_PMD, "%s", line.data());
  return length;
}

void redirect(const char* library, const char* symbol) {
  // Loaded by the driver, or not at all: then it says nothing. Kept: it calls back for ever.
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

}  // namespace drlnet::dpdk
