// What the simulated clients do: ordinary client code, which goes on after each error as a user's
// would.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "keys.h"
#include "oracle.h"
#include "session/server/sessions.h"
#include "world.h"

namespace drlnet::sim {

struct ClientSettings {
  std::string server;  // the first shard's address
  uint32_t shard = 0;  // the one that it works with
  uint64_t timeout_ns = 0;
  uint32_t rounds = 0;
  uint64_t seed = 0;
  uint64_t until_ns = 0;  // goes then, whatever its rounds; 0: after these
  uint64_t pause_ns = 0;  // about so long between two rounds
};

// After its client's last word a session is over, as soon as the server's housekeeping sees it.
constexpr uint64_t kSessionEndsNs = Sessions::kSilenceNs + 3'000'000'000;

// Sessions that clients have or had: each is the server's until it hears of its end, or for as long
// as it waits for a word of a client that died.
class Guests {
 public:
  void come() { ++here_; }
  void go(uint64_t now_ns) {
    --here_;
    gone_ns_.push_back(now_ns);
  }
  // How many a server may have had since then, at the most.
  size_t most_since(uint64_t began_ns);

 private:
  size_t here_ = 0;
  std::deque<uint64_t> gone_ns_;
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
  Limits limits{};            // of the server
  bool limited = false;       // they are so low that clients may meet them
  Guests guests{};
  std::optional<Keys> keys{};                // nothing: sessions are not sealed
  std::set<uint64_t> writing{};              // writers that have rows to write yet, by their seeds
  std::function<uint64_t()> rows_to_load{};  // of the server's life
  bool has_limiter() const { return spec.limiter.samples_per_insert > 0; }
};

using ClientRole = void (*)(Run& run, const ClientSettings& settings);
void write_rows(Run& run, const ClientSettings& settings);
// Where a limiter is, until no writer waits for draws.
void learn(Run& run, const ClientSettings& settings);
void publish(Run& run, const ClientSettings& settings);
void fetch(Run& run, const ClientSettings& settings);
// Reads statistics, and asks for what its key gives no right to.
void view(Run& run, const ClientSettings& settings);
// Reads all that the shard holds.
void verify(Run& run, const ClientSettings& settings);

// A crowd's: an actor, which leaves when its time has come.
void act(Run& run, const ClientSettings& settings);
// Looks again and again whether the server keeps to its limits, and lets go of clients that died.
void watch(Run& run, const ClientSettings& settings);
// Once all are gone for so long that the server lets go of what they held: that nothing is left of
// them but their rows, which are drawn, and that all of the shard's streams can be had.
void audit(Run& run, const ClientSettings& settings);

}  // namespace drlnet::sim
