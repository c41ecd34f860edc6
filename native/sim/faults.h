// What goes wrong in a run and which actors come to it, from its seed: a list of events that stand
// each for itself, so that some can be left out while the others stay as they are.
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
  join,  // of an actor, which is there for the fault's time
  // The server's, where it keeps a state:
  power_loss,  // and its restart
  disk_full,
  disk_errors,
  bit_rot,
  replay,  // of frames that were recorded, where sessions are sealed
};
constexpr size_t kUsualKinds = 13, kFaultKinds = 19;
const char* fault_name(FaultKind kind);

struct Fault {
  FaultKind kind{};
  uint64_t begin_ns = 0, length_ns = 0;
  uint32_t host = 0;       // 0: the server's; what it hits of a network is the frames of that host
  uint32_t hosts = 1;      // and of those behind it
  double probability = 0;  // of each frame
  uint64_t amount = 0;     // ns, bytes, s, calls before a crash or kDies, as its kind says
  bool at_disk = false;    // calls of its disk, those are
  uint64_t seed = 0;
  std::string text() const;
};

// An actor leaves in order, or ends without a word.
constexpr uint64_t kLeaves = 0, kDies = 1;

// keeps_state: the server, which is then hit more often. keyed: their sessions are sealed.
std::vector<Fault> draw_faults(uint64_t seed, uint32_t hosts, uint64_t span_ns, bool keeps_state,
                               bool keyed);
// A crowd's: the hosts from `first` on are its actors'.
std::vector<Fault> draw_crowd(uint64_t seed, uint32_t first, uint32_t hosts, uint64_t span_ns);

}  // namespace drlnet::sim
