// What two cores hand each other through memory while both spin: a cache line, whose round trip
// says how far apart they are, or a message, copied in and copied out.
// Threading: any, pinned to another core than the one named; no thread is left behind.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <optional>

#include "measure/loop.h"

namespace drlnet::measure {

inline constexpr size_t kMostHandedOver = 8192;  // bytes

// The mean of the quickest of some runs of handovers to a thread on `core` and back. Takes less
// than a millisecond where both cores are free, and ends after 50 where one is not. None where the
// thread may not run on `core`, or too little was handed over in that time.
std::optional<uint64_t> core_round_trip_ns(unsigned core);

// Round trips of messages of that many bytes. Ends early where an answer takes 50 ms.
size_t handovers(unsigned core, size_t bytes, const Loop& loop);

// Pins the thread. False where it may not run there.
bool stay_on(pthread_t thread, unsigned core);

}  // namespace drlnet::measure
