// Memory that is written next, and that another core has had last: unless they are asked for ahead,
// its lines come one trip between the cores after the write, and what is written behind waits for
// them.
#pragma once

#include <cstddef>

namespace drlnet {

constexpr size_t kLineBytes = 64;

// The compiler's own prefetch for writing is one for reading, but on processors that it is told of.
// The others take this instruction for none.
inline void prefetch_to_write(const std::byte* place) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*place));
#else
  __builtin_prefetch(place, 1);
#endif
}

inline void prefetch_to_write(const std::byte* begin, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLineBytes) prefetch_to_write(begin + at);
}

}  // namespace drlnet
