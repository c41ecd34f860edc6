// What the simulated clients do: ordinary client code, which goes on after each error as a user's
// would.
#pragma once

#include <string>

#include "oracle.h"
#include "world.h"

namespace drlnet::sim {

struct ClientSettings {
  std::string server;  // the first shard's address
  uint32_t shard = 0;  // the one that it works with
  uint64_t timeout_ns = 0;
  uint32_t rounds = 0;
  uint64_t seed = 0;
};

// What clients share with the run: nothing of it is known to the code under test.
struct Run {
  World& world;
  Oracle& oracle;
  TableSpec spec;
  uint64_t end_ns = 0;        // of the faults: until then work goes on
  uint64_t publications = 0;  // in all, of all starts
  uint64_t lineage = 0;       // of the server that the verifier found
  bool keeps_state = false;   // the server
  bool disk_rots = false;     // its disk has
};

void write_rows(Run& run, const ClientSettings& settings);
void learn(Run& run, const ClientSettings& settings);
void publish(Run& run, const ClientSettings& settings);
void fetch(Run& run, const ClientSettings& settings);
// Reads all that the shard holds.
void verify(Run& run, const ClientSettings& settings);

}  // namespace drlnet::sim
