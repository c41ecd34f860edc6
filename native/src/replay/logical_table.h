// A table as its clients know it, whatever number of shards it has: its limiter, the one line of
// requests that wait for it, and how many streams each shard has. In the line stand appends that
// may not go in yet and draws that the limiter holds back, each kind in order of arrival over all
// shards, so that none passes another again and again. Threading: any thread; each call holds a
// lock for some ten nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "replay/limiter.h"

namespace drlnet {

// A request that may have to wait; it keeps its place when it asks again.
struct Waiter {
  enum class Want : uint8_t { insert, draw };
  Want want{};
  uint32_t shard = 0;
  uint32_t session = 0;    // has at most one of a kind; 0: of none, and stands in no line
  uint64_t count = 0;      // items, or draws
  uint64_t least = 0;      // see Limiter::may_sample()
  bool ring_full = false;  // an append that would overwrite what its shard has to give yet,
  bool with_batch = true;  // and whether there was a batch to be drawn when the shard looked
};

// What shards of a table have come to: how many items were created and drawn there, what they hold,
// and how many streams are leased.
struct Tally {
  uint64_t created = 0, drawn = 0;
  Stock stock{};
  uint64_t streams = 0;
};

class LogicalTable {
 public:
  static constexpr uint32_t kMaxShards = 64;  // bits of what wake is told

  // wake: called without the lock; bit i: next(i) or has_ended() has something to say.
  explicit LogicalTable(const LimiterSpec& limiter, uint32_t shards = 1,
                        std::function<void(uint64_t)> wake = {});

  uint32_t shards() const { return static_cast<uint32_t>(stocks_.size()); }

  // Wait::none: the request goes ahead now. Draws are counted then; items have their room, and
  // changed() must follow. Else it stands in line.
  Wait ask(const Waiter& waiter);
  // room: what ask() gave; stock: of the shard, from now on.
  void changed(uint32_t shard, uint64_t room, uint64_t created, const Stock& stock);
  // A draw that found no item whose rows its client has, and is not counted. Where the limiter
  // holds an append, it is: else rows that the client has could never come.
  void pass_over(uint32_t shard, uint64_t draws);
  // What the shard had done in another life of the server; once more where an older record tells.
  void restore(uint32_t shard, uint64_t created, uint64_t drawn, const Stock& stock);
  // The session is over.
  void leave(uint32_t shard, uint32_t session);
  // The shard's request that is to ask again, if there is one.
  std::optional<Waiter> next(uint32_t shard);
  // The table is dropped, by this shard and then by all others, which are woken for it. Returns the
  // shard's requests that stood in line: they are to be refused.
  std::vector<Waiter> end(uint32_t shard);
  bool has_ended();
  // Whether a queue's shards have a batch between them, which its reader may then draw.
  bool has_batch();

  // Adds up the shards of this process.
  Tally own();
  // Counts shards elsewhere, told apart by `whose`, in place of what was heard of them before.
  // Requests here go by it.
  void heard(uint32_t whose, const Tally& tally);
  void set_streams(uint32_t shard, uint32_t count);
  uint32_t streams(uint32_t shard);
  // The shard with the fewest streams; of several the one whose turn it is.
  uint32_t emptiest();

 private:
  struct Place : Waiter {
    bool woken = false;
  };
  static bool is_first(std::span<const Place> ahead, const Waiter& waiter);
  Wait admits(const Waiter& waiter) const;
  Place* next(Waiter::Want want);
  bool looks_again(const Place& place) const;
  void wake_others(uint32_t shard, std::unique_lock<std::mutex>& lock);

  std::function<void(uint64_t)> wake_;
  std::mutex mutex_;
  Limiter limiter_;
  std::vector<Stock> stocks_;  // by shard, as are streams_
  Stock stock_;                // of all
  uint64_t room_ = 0;          // given and not yet used
  std::vector<Place> line_;
  std::vector<uint32_t> streams_;
  struct Restored {
    uint64_t created = 0, drawn = 0;
  };
  std::vector<Restored> restored_;  // by shard
  std::map<uint32_t, Tally> elsewhere_;
  uint32_t turn_ = 0;
  bool ended_ = false;
};

}  // namespace drlnet
