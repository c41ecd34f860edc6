#include "faults.h"

#include <algorithm>
#include <cstdio>

#include "base/random.h"

namespace drlnet::sim {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr const char* kNames[kFaultKinds] = {
    "loss",         "duplicates", "reordering",   "delay",       "truncation",
    "flips",        "partition",  "small_frames", "new_address", "server_crash",
    "client_crash", "clock_jump", "wall_jump"};

uint64_t amount_of(FaultKind kind, Random& random) {
  switch (kind) {
    case FaultKind::reordering:
      return kMs / 10 + random.below(5 * kMs);
    case FaultKind::delay:
      return kMs + random.below(200 * kMs);
    case FaultKind::small_frames:
      return 1232 + 8 * random.below(64);
    case FaultKind::server_crash:
    case FaultKind::client_crash:
      return random.below(4000);
    case FaultKind::clock_jump:
      return kMs * (1 + random.below(random.below(8) == 0 ? 80'000 : 900));
    case FaultKind::wall_jump:
      return random.below(7200);
    default:
      return 0;
  }
}

}  // namespace

const char* fault_name(FaultKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string Fault::text() const {
  char line[160];
  std::snprintf(line, sizeof line, "%s at %.3f s for %.0f ms, host %u, probability %.2f, %llu",
                fault_name(kind), static_cast<double>(begin_ns) / 1e9,
                static_cast<double>(length_ns) / 1e6, host, probability,
                static_cast<unsigned long long>(amount));
  return line;
}

std::vector<Fault> draw_faults(uint64_t seed, uint32_t hosts, uint64_t span_ns) {
  Random random(seed);
  std::vector<Fault> faults(1 + random.below(12));
  for (Fault& fault : faults) {
    fault.kind = static_cast<FaultKind>(random.below(kFaultKinds));
    // One of its kind, and a restart of the server ends most of what clients do: not too often.
    if (fault.kind == FaultKind::server_crash && random.below(3) != 0) {
      fault.kind = FaultKind::loss;
    }
    fault.begin_ns = random.below(span_ns);
    fault.length_ns = 10 * kMs + random.below(random.below(4) == 0 ? 3000 * kMs : 300 * kMs);
    fault.host = static_cast<uint32_t>(random.below(hosts));
    if (fault.kind == FaultKind::client_crash || fault.kind == FaultKind::new_address) {
      fault.host = 1 + static_cast<uint32_t>(random.below(hosts - 1));
    }
    fault.probability = std::max(0.01, random.uniform() * random.uniform());
    fault.amount = amount_of(fault.kind, random);
    fault.seed = random.bits();
  }
  return faults;
}

}  // namespace drlnet::sim
