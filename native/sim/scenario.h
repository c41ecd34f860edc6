// One run: a server, its clients, what goes wrong, and what comes of it, all from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "settings.h"

namespace drlnet::sim {

struct Outcome {
  uint64_t hash = 0, events = 0, frames = 0;
  double simulated_s = 0;
  uint64_t peak_bytes = 0;  // of the process that ran it: no part of the trace
  std::map<std::string, uint64_t> marks;
};

// Ends the process through broken() where a promise is not kept.
Outcome simulate(const Wanted& wanted);

}  // namespace drlnet::sim
