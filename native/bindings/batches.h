// What the bindings of calls share: the memory that batches come into, and what Python holds.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "bindings.h"
#include "client/sharded_client.h"
#include "held.h"

namespace drlnet {

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using HeldClient = Held<ShardedClient, Callers::any>;
using HeldWriter = Held<ShardedWriter, Callers::one>;
using HeldStream = Held<BatchStream, Callers::one>;
using HeldMirror = Held<MirroredTable, Callers::any>;
inline constexpr char kStream[] = "a stream of batches";

template <typename T>
std::span<T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

// At most some thirty years, at least none; NaN is none.
inline uint64_t ns_of(double seconds) {
  return seconds > 0 ? static_cast<uint64_t>(std::min(seconds, 1e9) * 1e9) : 0;
}

// That a batch is to come into.
inline Memory batch_memory(nb::handle array) { return Memory(array, PyBUF_WRITABLE); }

inline std::span<std::byte> bytes_of(const Memory& memory) { return memory.as<std::byte>(); }

inline std::vector<std::span<std::byte>> memory_of(const std::vector<Array<uint8_t>>& buffers) {
  std::vector<std::span<std::byte>> memory;
  for (const auto& buffer : buffers) memory.push_back(std::as_writable_bytes(span_of(buffer)));
  return memory;
}

}  // namespace drlnet
