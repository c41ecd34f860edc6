// What the two files of the module `_measure` share. Latencies go into an array of the caller's;
// every loop returns how many calls there were.
#pragma once

#include "../bindings.h"
#include "measure/loop.h"

namespace drlnet {

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using Latencies = Array<uint64_t>;

template <typename T>
std::span<T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

inline std::span<std::byte> bytes_of(const Array<uint8_t>& array) {
  return std::as_writable_bytes(span_of(array));
}

inline uint64_t ns_of(double seconds) { return static_cast<uint64_t>(seconds * 1e9); }

// Runs one timed loop without the GIL.
template <typename Run>
size_t timed(const Latencies& latencies, double budget_s, Run run) {
  const measure::Loop loop{span_of(latencies), ns_of(budget_s)};
  nb::gil_scoped_release release;
  return run(loop);
}

// draws(batch, latencies, budget_s): a loop of an object, for about that long.
template <typename Measured, typename Amount>
auto loop_of(size_t (Measured::*method)(Amount, const measure::Loop&)) {
  return [method](Measured& measured, Amount amount, const Latencies& latencies, double budget_s) {
    return timed(latencies, budget_s,
                 [&](const measure::Loop& loop) { return (measured.*method)(amount, loop); });
  };
}

void bind_session(nb::module_& module);
void bind_replays(nb::module_& module);
void bind_open_loop(nb::module_& module);

}  // namespace drlnet
