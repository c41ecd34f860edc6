// What was acknowledged to which client, and what may be found because of it. It ends the run where
// a promise is broken. The promises are those of drlnet/docs/operations.md.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "spec/table_spec.h"

namespace drlnet::sim {

// A row names its stream, by the lease's token, and its step; the rest of it follows from these.
struct RowName {
  uint64_t token = 0, step = 0;
  auto operator<=>(const RowName&) const = default;
};
constexpr uint64_t kEpisodeSteps = 10;  // the last one is a final observation, and has no item
void fill_row(const RowName& name, std::span<std::byte> payload);

class Oracle {
 public:
  explicit Oracle(const TableSpec& spec) : spec_(spec) {}

  // Streams: (1).
  void leased(uint64_t lineage, const Lease& lease);
  void resumed(uint64_t lineage, const Lease& lease);
  void sent(uint64_t token, uint64_t steps) { streams_.at(token).sent = steps; }
  void acknowledged(uint64_t token, uint64_t steps);

  // Items of a reply, as they lie there: what they hold, and that a key stays the same row's.
  void items(uint64_t lineage, std::span<const std::byte> reply, uint32_t count, bool drawn);

  // Priorities: (2).
  static float initial_priority(const RowName& name);
  static float updated_priority(uint64_t key);
  void updating(uint64_t lineage, uint64_t key) { updates_[{lineage, key}] |= 1; }
  void updated(uint64_t lineage, uint64_t key) { updates_[{lineage, key}] |= 2; }

  // Params: (6).
  static void fill_params(uint64_t number, std::vector<std::byte>& params);
  void published(uint64_t lineage, uint64_t version, uint64_t number);
  void fetched(uint64_t lineage, uint64_t before, uint64_t version,
               std::span<const std::byte> params);

  // Everything that the server holds at the end.
  void stored(uint64_t lineage, uint64_t key, float priority);
  // held_rows: as many as one shard holds.
  void complete(uint64_t lineage, uint64_t held_rows);

 private:
  struct StreamLog {
    uint64_t lineage = 0, sent = 0, acknowledged = 0;
    std::set<uint64_t> uncertain{};  // stored, perhaps without their items
  };
  using Key = std::pair<uint64_t, uint64_t>;  // of which lineage

  const TableSpec spec_;
  std::map<uint64_t, StreamLog> streams_;  // by token
  std::map<Key, RowName> rows_;            // by key
  std::map<Key, unsigned> updates_;        // 1: asked for, 2: acknowledged
  std::map<Key, uint64_t> params_;         // the number published as that version
  std::map<uint64_t, std::set<RowName>> held_;
};

}  // namespace drlnet::sim
