// What was acknowledged to which client, and what may be found because of it. It ends the run where
// a promise is broken. The promises are those of drlnet/docs/operations.md.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/client.h"
#include "spec/sample_layout.h"
#include "spec/table_spec.h"
#include "world.h"

namespace drlnet::sim {

// A row names its stream, by the lease's token, and its step; the rest of it follows from these.
struct RowName {
  uint64_t token = 0, step = 0;
  auto operator<=>(const RowName&) const = default;
};
constexpr uint64_t kEpisodeSteps = 10;  // the last one is a final observation
void fill_row(const RowName& name, std::span<std::byte> payload);

// Whether an item is anchored at that step, and how many rows it has behind it.
bool is_anchor(const ItemSpec& item, uint64_t step);
uint64_t length_at(const ItemSpec& item, uint64_t step);

class Oracle {
 public:
  // durability_ns: nothing where the server keeps no state.
  Oracle(World& world, const TableSpec& spec, std::optional<uint64_t> durability_ns)
      : world_(world), spec_(spec), durability_ns_(durability_ns) {}

  // Times are the world's. Began: when the client asked, or had first to tell: where the server has
  // died since, its answer may be that of the life before, and says nothing of this one.
  void server_dies();
  // Its disk fails for a time: what is not on it by then gets there a while after.
  void disk_fails(uint64_t until_ns) { failing_.push_back({world_.time_ns(), until_ns}); }
  void disk_works();
  // Some of what was durable may go; what is left of it must be right.
  void disk_rots() { rots_ = true; }

  // Streams: (1), and over the server's lives (4).
  void leased(uint64_t lineage, uint32_t shard, const Lease& lease, uint64_t began_ns);
  void resumed(uint64_t lineage, const Lease& lease, uint64_t began_ns);
  void releasing(uint64_t token) { streams_.at(token).releasing = true; }
  void released(uint64_t token) { streams_.at(token).released = true; }
  void sent(uint64_t token, uint64_t steps);
  void acknowledged(uint64_t token, uint64_t steps, uint64_t began_ns);

  // Items of a reply, as they lie there: what they hold, and that a key stays the same row's.
  void items(uint64_t lineage, std::span<const std::byte> reply, uint32_t count, bool drawn);

  // What a server of one shard says with a draw of how many items it has created and drawn: that
  // its limiter keeps them in proportion, and over its lives (4).
  void counted(uint64_t lineage, std::span<const std::byte> reply, uint64_t began_ns);

  // Priorities: (2), (4).
  static float initial_priority(const RowName& name);
  static float updated_priority(uint64_t key);
  void updating(uint64_t lineage, uint64_t key);
  void updated(uint64_t lineage, uint64_t key, uint64_t began_ns);

  // Params, and blobs by their names: (6), (4). What is published follows from its number.
  static constexpr const char* kParams = "";
  static void fill_published(uint64_t number, std::vector<std::byte>& bytes);
  static std::string blob_of(uint64_t number);
  void published(uint64_t lineage, const std::string& name, uint64_t version, uint64_t number,
                 uint64_t began_ns);
  // The version below which the server's may not be: of the server that is there now.
  uint64_t least_version(const std::string& name) const;
  // version: 0 where there is none newer.
  void fetched(uint64_t lineage, const std::string& name, uint64_t before, uint64_t version,
               std::span<const std::byte> bytes, uint64_t least_version, uint64_t began_ns);

  // Everything that the server holds at the end.
  void stored(uint64_t lineage, uint64_t key, float priority);
  // held_rows: as many as one shard holds.
  void complete(uint64_t lineage, uint64_t held_rows);

 private:
  template <typename T>
  static T read(std::span<const std::byte> bytes, uint64_t at) {
    T value;
    std::memcpy(&value, bytes.subspan(at, sizeof value).data(), sizeof value);
    return value;
  }

  // What was acknowledged when.
  struct Acknowledged {
    uint64_t at_ns, value;
  };
  struct StreamLog {
    uint64_t lineage = 0, life = 0;  // the server's last in which it was told
    uint64_t sent = 0, acknowledged = 0;
    uint32_t epoch = 0;
    uint64_t heard_ns = 0, jumped_ns = 0;  // when its server last said something of it
    bool releasing = false, released = false;
    std::set<uint64_t> uncertain{};  // stored, perhaps without their items
    std::vector<Acknowledged> since{};
  };
  struct Counts {
    uint64_t at_ns = 0, created = 0, drawn = 0;
  };
  struct Update {
    uint64_t key, life;
    uint64_t acknowledged_ns = 0;  // 0: not, or not so that it had to be there after a crash
  };
  using Key = std::pair<uint64_t, uint64_t>;  // of which lineage

  void is_whole(const SampleLayout& layout, std::span<const std::byte> reply, uint32_t count,
                uint32_t i, const RowName& anchor);
  bool durable(uint64_t at_ns) const;
  // Whether what was acknowledged just now holds for the life of the server that goes on.
  bool counts(uint64_t began_ns) const;
  void is_version(uint64_t lineage, const std::string& name, uint64_t version, uint64_t number);
  void forget_updates(uint64_t token, uint64_t from, uint64_t to);

  World& world_;
  const TableSpec spec_;
  void heard(StreamLog& log);
  void is_followed(const StreamLog& former, const StreamLog& log, uint32_t ordinal);

  const std::optional<uint64_t> durability_ns_;
  struct Failing {
    uint64_t from_ns, until_ns;
  };
  std::vector<Failing> failing_;
  bool rots_ = false;
  uint64_t died_ns_ = 0, life_ = 1;        // of the server: last; which it is in
  std::map<uint64_t, StreamLog> streams_;  // by token
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint64_t> newest_;  // by lineage and place
  std::vector<Counts> counts_;                                           // of this life
  Counts kept_{};                // the most of earlier ones that was durable
  std::map<Key, RowName> rows_;  // by key
  std::map<RowName, std::vector<Update>> updates_;
  // The number published as that version: of params, and of blobs.
  std::map<Key, uint64_t> params_, blobs_;
  std::map<std::string, std::vector<Acknowledged>> published_;  // versions, by name
  std::map<uint64_t, std::set<RowName>> held_;
};

}  // namespace drlnet::sim
