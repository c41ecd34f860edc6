// A copy to memory that is larger than a processor's caches and is read later, if at all: its lines
// are written past the cache, and not fetched before they are overwritten.
#pragma once

#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace drlnet {

// Other threads see it in order with what follows only behind a streaming_fence().
void streaming_copy(std::byte* to, const std::byte* from, size_t bytes);
// By it where `streamed`, else through the caches.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes, bool streamed) {
  streamed ? streaming_copy(to, from, bytes) : void(std::memcpy(to, from, bytes));
}

#if defined(__x86_64__)
inline void streaming_fence() { _mm_sfence(); }
#else
inline void streaming_fence() {}
#endif

}  // namespace drlnet
