// A copy to memory that is larger than a processor's caches and is read later, if at all: its lines
// are written past the cache, and not fetched before they are overwritten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace drlnet {

#if defined(__x86_64__)
// Other threads see it in order with what follows only behind a streaming_fence().
inline void streaming_copy(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kLine = 64, kPart = sizeof(__m128i);
  // Lines that others write a part of go through the cache.
  const size_t before = std::min(bytes, (0 - reinterpret_cast<uintptr_t>(to)) % kLine);
  std::memcpy(to, from, before);
  size_t at = before;
  for (; at + kLine <= bytes; at += kLine) {
    for (size_t part = at; part < at + kLine; part += kPart) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + part), value);
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
}
inline void streaming_fence() { _mm_sfence(); }
#else
inline void streaming_copy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
inline void streaming_fence() {}
#endif

}  // namespace drlnet
