// What goes wrong in a run, from its seed: a list of events that stand each for itself, so that
// some can be left out while the others stay as they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace drlnet::sim {

enum class FaultKind : uint8_t {
  loss,
  duplicates,
  reordering,
  delay,
  truncation,
  flips,
  partition,
  small_frames,  // the path takes no longer ones
  new_address,   // of a client
  server_crash,  // and its restart
  client_crash,  // and its restart
  clock_jump,    // of a client or the server
  wall_jump,
};
constexpr size_t kFaultKinds = 13;
const char* fault_name(FaultKind kind);

struct Fault {
  FaultKind kind{};
  uint64_t begin_ns = 0, length_ns = 0;
  uint32_t host = 0;       // 0: the server's; what it hits of a network is the frames of that host
  double probability = 0;  // of each frame
  uint64_t amount = 0;     // ns, bytes, s, or calls before a crash, as its kind says
  uint64_t seed = 0;
  std::string text() const;
};

std::vector<Fault> draw_faults(uint64_t seed, uint32_t hosts, uint64_t span_ns);

}  // namespace drlnet::sim
