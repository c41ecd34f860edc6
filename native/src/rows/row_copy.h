// Copies of rows, and of parts of them, into a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/loans.h"
#include "base/streaming_copy.h"

namespace drlnet {

// How longer pieces are written: lent, where the frame that they go into takes loans; else copied,
// past the caches into a batch that is larger than those.
struct RowSink {
  Loans* loans = nullptr;
  bool past_caches = false;
};

// Most rows of vector environments are a few bytes: a call to memcpy for each costs more than the
// bytes do.
inline void copy_row(std::byte* to, const std::byte* from, size_t bytes, RowSink sink) {
  switch (bytes) {
    case 1:
      std::memcpy(to, from, 1);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 12:
      std::memcpy(to, from, 12);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    case 32:
      std::memcpy(to, from, 32);
      return;
    default:
      if (sink.loans != nullptr) return sink.loans->put(to, from, bytes);
      copy_bytes(to, from, bytes, sink.past_caches);
  }
}

constexpr size_t kRowsAhead = 16;       // items, or rows, that are on their way while one is copied
constexpr size_t kShortRowsAhead = 32;  // ... which takes only as long as its stores
constexpr size_t kShortRowBytes = 64;   // of a row for which looking up its place takes longest

// The lengths of short rows, and how a row of that length is copied. Two moves that may overlap do
// for a whole range of them. As few stores as that takes: while their lines come from a client's
// core, only a few can wait.
template <size_t kBegin, size_t kEnd>
struct Ends {
  size_t bytes;
  constexpr operator size_t() const { return bytes; }
};
template <size_t kBegin, size_t kEnd>
inline void copy_short_row(std::byte* to, const std::byte* from, Ends<kBegin, kEnd> bytes) {
  std::memcpy(to, from, kBegin);
  std::memcpy(to + bytes - kEnd, from + bytes - kEnd, kEnd);
}
template <size_t kBytes>
inline void copy_short_row(std::byte* to, const std::byte* from,
                           std::integral_constant<size_t, kBytes>) {
  std::memcpy(to, from, kBytes);
}
// Calls with(length) for a row of 1 to 64 bytes: chosen once for all that are copied so.
template <typename With>
inline void with_short_row(size_t bytes, With with) {
  if (bytes == 1) return with(std::integral_constant<size_t, 1>{});
  if (bytes == 4) return with(std::integral_constant<size_t, 4>{});
  if (bytes == 8) return with(std::integral_constant<size_t, 8>{});
  if (bytes == 16) return with(std::integral_constant<size_t, 16>{});
  if (bytes > 48) return with(Ends<32, 32>{bytes});
  if (bytes > 32) return with(Ends<32, 16>{bytes});
  if (bytes > 16) return with(Ends<16, 16>{bytes});
  if (bytes > 8) return with(Ends<8, 8>{bytes});
  if (bytes > 4) return with(Ends<4, 4>{bytes});
  with(Ends<2, 2>{bytes});
}

}  // namespace drlnet
