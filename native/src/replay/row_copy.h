// Copies of rows, and of parts of them, into a reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/loans.h"

namespace drlnet {

// Most rows of vector environments are a few bytes: a call to memcpy for each costs more than the
// bytes do.
inline void copy_row(std::byte* to, const std::byte* from, size_t bytes, Loans* loans) {
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
      if (loans != nullptr) return loans->put(to, from, bytes);
      std::memcpy(to, from, bytes);
  }
}

constexpr size_t kRowsAhead = 16;       // items, or rows, that are on their way while one is copied
constexpr size_t kShortRowsAhead = 32;  // ... which takes only as long as its stores
constexpr size_t kShortRowBytes = 64;   // of a row for which looking up its place takes longest

// The same for any number of bytes from 1 to 64: two moves that may overlap do for a whole range.
// As few stores as that takes: while their lines come from a client's core, only so many can wait.
template <size_t kBegin, size_t kEnd>
inline void copy_ends(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, kBegin);
  std::memcpy(to + bytes - kEnd, from + bytes - kEnd, kEnd);
}
inline void copy_short_row(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 48) return copy_ends<32, 32>(to, from, bytes);
  if (bytes > 32) return copy_ends<32, 16>(to, from, bytes);
  if (bytes > 16) return copy_ends<16, 16>(to, from, bytes);
  if (bytes > 8) return copy_ends<8, 8>(to, from, bytes);
  if (bytes > 4) return copy_ends<4, 4>(to, from, bytes);
  if (bytes > 2) return copy_ends<2, 2>(to, from, bytes);
  copy_ends<1, 1>(to, from, bytes);
}
template <size_t kBytes>
inline void copy_short_row(std::byte* to, const std::byte* from,
                           std::integral_constant<size_t, kBytes>) {
  std::memcpy(to, from, kBytes);
}

}  // namespace drlnet
