// Assertions for programmer's errors. They stay on in release builds: a broken invariant in a
// server that holds other people's experience must stop it, not corrupt it.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace drlnet {

[[noreturn]] inline void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "drlnet: assertion failed: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace drlnet

#define DRLNET_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::drlnet::assertion_failed(#condition, __FILE__, __LINE__))
