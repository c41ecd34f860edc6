#include "base/streaming_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace drlnet {

#if defined(__x86_64__)
namespace {

constexpr size_t kLine = 64;

void copy_lines(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(__m128i)) {
    const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), part);
  }
}

// By half as many stores: 18 MB for another core took 2.4 ms where the above took 2.6.
[[gnu::target("avx")]] void copy_lines_avx(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) {
    const auto* const source = reinterpret_cast<const __m256i*>(from + at);
    auto* const line = reinterpret_cast<__m256i*>(to + at);
    const __m256i first = _mm256_loadu_si256(source), second = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(line, first);
    _mm256_stream_si256(line + 1, second);
  }
}

const bool has_avx = __builtin_cpu_supports("avx");

}  // namespace

void streaming_copy(std::byte* to, const std::byte* from, size_t bytes) {
  // Lines that others write a part of go through the cache.
  const size_t before = std::min(bytes, (0 - reinterpret_cast<uintptr_t>(to)) % kLine);
  const size_t lines = (bytes - before) / kLine * kLine, end = before + lines;
  std::memcpy(to, from, before);
  has_avx ? copy_lines_avx(to + before, from + before, lines)
          : copy_lines(to + before, from + before, lines);
  std::memcpy(to + end, from + end, bytes - end);
}
#else
void streaming_copy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

}  // namespace drlnet
