// What a seed makes of a run before anything happens in it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "faults.h"
#include "spec/limits.h"
#include "spec/table_spec.h"

namespace drlnet::sim {

// What a learner draws at once, and a writer appends, at the most.
constexpr uint32_t kMostDraws = 48, kMostAppended = 40;

struct Wanted {
  uint64_t seed = 1;
  uint32_t clients = 0;  // the actors of a crowd; 0: a few clients that write, draw and fetch
  std::optional<std::set<size_t>> only;  // of the faults, by their place; nothing: all
  bool checked = true;                   // frames bear checksums
  bool trace = false;
};

struct Settings {
  uint64_t span_ns = 0;        // in which faults begin
  uint64_t pause_ns = 0;       // between two rounds of a crowd's actor, in the middle
  uint64_t draw_pause_ns = 0;  // of a learner, likewise
  uint32_t shards = 1, writers = 0, learners = 0, fetchers = 0, watchers = 0, viewers = 0;
  uint32_t actors = 0;
  size_t frame_bytes = 0;
  uint64_t table_bytes = 0;
  TableSpec spec;
  std::optional<uint64_t> durability_ns;  // nothing: the server keeps no state
  Limits limits;
  bool limited = false;  // the limits may be met
  bool keyed = false;    // sessions are sealed, and roles have their rights

  // The server's comes first; the publisher's is one more.
  uint32_t first_actor() const { return 2 + writers + learners + fetchers + watchers + viewers; }
  uint32_t hosts() const { return first_actor() + actors; }
};

Settings draw_settings(const Wanted& wanted);
std::vector<Fault> faults_of(const Wanted& wanted);

}  // namespace drlnet::sim
