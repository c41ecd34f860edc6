// One run: a server, its clients, what goes wrong, and what comes of it, all from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "faults.h"

namespace drlnet::sim {

struct Wanted {
  uint64_t seed = 1;
  std::optional<std::set<size_t>> only;  // of the faults, by their place; nothing: all
  bool checked = true;                   // frames bear checksums
  bool trace = false;
};

struct Outcome {
  uint64_t hash = 0, events = 0, frames = 0;
  double simulated_s = 0;
  std::map<std::string, uint64_t> marks;
};

std::vector<Fault> faults_of(uint64_t seed);
// Ends the process through broken() where a promise is not kept.
Outcome simulate(const Wanted& wanted);

}  // namespace drlnet::sim
