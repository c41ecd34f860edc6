#include "faults.h"

#include <algorithm>
#include <cstdio>

#include "base/random.h"

namespace drlnet::sim {
namespace {

constexpr uint64_t kMs = 1'000'000, kLongRunNs = 20'000 * kMs;
constexpr const char* kNames[kFaultKinds] = {
    "loss",         "duplicates",  "reordering",   "delay",       "truncation",
    "flips",        "partition",   "small_frames", "new_address", "server_crash",
    "client_crash", "clock_jump",  "wall_jump",    "join",        "power_loss",
    "disk_full",    "disk_errors", "bit_rot",      "replay"};

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
    case FaultKind::power_loss:
      return random.below(4000);
    case FaultKind::clock_jump:
      return kMs * (1 + random.below(random.below(8) == 0 ? 80'000 : 900));
    case FaultKind::wall_jump:
      return random.below(7200);
    default:
      return 0;
  }
}

Fault draw_fault(Random& random, uint32_t hosts, uint64_t span_ns) {
  Fault fault;
  fault.kind = static_cast<FaultKind>(random.below(kUsualKinds));
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
  return fault;
}

// What an actor's host has of lives: some that die come back as another.
void draw_lives(Random& random, uint32_t host, uint64_t span_ns, bool at_once,
                std::vector<Fault>& faults) {
  uint64_t begin_ns = random.below(at_once ? kMs * 1000 : span_ns / 4 * 3);
  for (bool again = true; again && begin_ns < span_ns;) {
    const bool dies = random.below(3) == 0;
    faults.push_back({.kind = FaultKind::join,
                      .begin_ns = begin_ns,
                      .length_ns = span_ns / 16 + random.below(span_ns / 2),
                      .host = host,
                      .amount = dies ? kDies : kLeaves,
                      .seed = random.bits()});
    again = dies && random.below(2) == 0;
    begin_ns += faults.back().length_ns + random.below(span_ns / 8);
  }
}

// Many hosts have something each; the whole network and the server have no more than where hosts
// are few.
Fault draw_host_fault(Random& random, uint32_t hosts, uint64_t span_ns) {
  Fault fault = draw_fault(random, hosts, span_ns);
  if (fault.kind == FaultKind::server_crash) fault.kind = FaultKind::partition;
  if (fault.host == 0) fault.host = 1 + static_cast<uint32_t>(random.below(hosts - 1));
  const bool rack = random.below(16) == 0;
  if (rack) fault.hosts = std::min(hosts - fault.host, 1 + hosts / 10);
  // Longer than sessions wait for a word.
  if (fault.kind == FaultKind::partition && random.below(4) == 0) {
    fault.length_ns += random.below(150'000 * kMs);
  }
  return fault;
}

Fault draw_crash(Random& random, uint64_t span_ns) {
  Fault fault;
  fault.kind = random.below(2) == 0 ? FaultKind::server_crash : FaultKind::power_loss;
  fault.begin_ns = random.below(span_ns);
  fault.length_ns = kMs + random.below(800 * kMs);
  fault.at_disk = random.below(4) != 0;
  fault.amount = fault.at_disk ? random.below(16) : amount_of(fault.kind, random);
  fault.seed = random.bits();
  return fault;
}

Fault draw_disk_fault(Random& random, uint64_t span_ns) {
  constexpr FaultKind kKinds[] = {FaultKind::disk_full, FaultKind::disk_errors, FaultKind::bit_rot};
  Fault fault;
  fault.kind = kKinds[random.below(std::size(kKinds))];
  fault.begin_ns = random.below(span_ns);
  fault.length_ns = 10 * kMs + random.below(2000 * kMs);
  fault.probability = fault.kind == FaultKind::disk_errors ? 0.05 + random.uniform() / 2 : 1;
  fault.seed = random.bits();
  return fault;
}

// What is recorded comes again soon, or when its session may be over.
Fault draw_replay(Random& random, uint32_t hosts, uint64_t span_ns) {
  Fault fault;
  fault.kind = FaultKind::replay;
  fault.begin_ns = random.below(span_ns);
  fault.length_ns = 10 * kMs + random.below(2000 * kMs);
  fault.host = static_cast<uint32_t>(random.below(hosts));
  fault.probability = 0.01 + random.uniform() / 4;
  fault.amount = kMs + random.below(random.below(2) == 0 ? 100 * kMs : 10'000 * kMs);
  fault.seed = random.bits();
  return fault;
}

}  // namespace

const char* fault_name(FaultKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string Fault::text() const {
  char line[224];
  const std::string to = hosts > 1 ? "-" + std::to_string(host + hosts - 1) : "";
  std::snprintf(line, sizeof line, "%s at %.3f s for %.0f ms, host %u%s, probability %.2f, %llu%s",
                fault_name(kind), static_cast<double>(begin_ns) / 1e9,
                static_cast<double>(length_ns) / 1e6, host, to.c_str(), probability,
                static_cast<unsigned long long>(amount), at_disk ? " of its disk" : "");
  return line;
}

std::vector<Fault> draw_faults(uint64_t seed, uint32_t hosts, uint64_t span_ns, bool keeps_state,
                               bool keyed) {
  Random random(seed);
  std::vector<Fault> faults(1 + random.below(12));
  for (Fault& fault : faults) fault = draw_fault(random, hosts, span_ns);
  for (uint64_t more = keeps_state ? 1 + random.below(3) : 0; more > 0; --more) {
    faults.push_back(draw_crash(random, span_ns));
  }
  if (keeps_state && random.below(4) == 0) faults.push_back(draw_disk_fault(random, span_ns));
  for (uint64_t more = keyed ? 1 + random.below(3) : 0; more > 0; --more) {
    faults.push_back(draw_replay(random, hosts, span_ns));
  }
  return faults;
}

std::vector<Fault> draw_crowd(uint64_t seed, uint32_t first, uint32_t hosts, uint64_t span_ns) {
  Random random(seed);
  std::vector<Fault> faults;
  const bool at_once = random.below(3) == 0;
  for (uint32_t host = first; host < hosts; ++host) {
    draw_lives(random, host, span_ns, at_once, faults);
  }
  for (uint64_t i = random.below(12); i > 0; --i) {  // of the server's host and those beside it
    faults.push_back(draw_fault(random, first, span_ns));
  }
  for (uint32_t i = 0; i < hosts / 8; ++i) {
    faults.push_back(draw_host_fault(random, hosts, span_ns));
  }
  for (Fault& fault : faults) {  // a longer run has longer ones
    if (fault.kind != FaultKind::join) fault.length_ns *= 1 + span_ns / kLongRunNs;
  }
  return faults;
}

}  // namespace drlnet::sim
