// How far apart two cores are: the round trip of one cache line between them.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <optional>

namespace drlnet::measure {

// Between the calling thread, which is pinned to another core, and a thread on `core`: the mean of
// the quickest of some runs of handovers. Takes less than a millisecond where both cores are free,
// and ends after 50 where one is not. None where the thread may not run on `core`, or too little
// was handed over in that time. Threading: any; no thread is left behind.
std::optional<uint64_t> core_round_trip_ns(unsigned core);

// Pins the thread. False where it may not run there.
bool stay_on(pthread_t thread, unsigned core);

}  // namespace drlnet::measure
