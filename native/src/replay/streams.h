// The streams of a table: leased identities, independent of any connection. An ordinal is small and
// reused after release; its epoch grows with each lease, so that late appends of a former holder
// are recognised. Threading: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "replay/table_state.h"
#include "spec/items.h"

namespace drlnet {

constexpr uint64_t kNoNumber = std::numeric_limits<uint64_t>::max();

struct Stream {
  uint32_t epoch = 0;
  bool leased = false;
  uint64_t token = 0;
  uint64_t next_step = 0;
  uint64_t holder = 0;  // the session that leased it last, 0: orphaned
  uint64_t orphaned_at_ns = 0;

  // The table's, of this lease's rows.
  // That of step 0, or of the first row that moved to the head last (table_room.cc): what lies
  // before it is of another lease, or is there once more.
  uint64_t first_number = kNoNumber;
  uint64_t last_number = kNoNumber;  // of step next_step - 1
  uint64_t oldest_step = 0;          // the steps before it are evicted
  uint32_t since_first = 0;          // of the newest row
  bool open = false;                 // the newest row is not LAST: its episode goes on

  uint64_t scan = 0;  // the one that has seen what the stream has begun

  // While an append is checked: what next_step and open would be after it.
  uint64_t staged_append = 0;  // which append the two belong to
  uint64_t staged_step = 0;
  bool staged_open = false;
};

class Streams {
 public:
  static constexpr uint64_t kOrphanGraceNs = 60'000'000'000;

  // maximum: how many may be leased at once (capacity / (2 * window), the deadlock rule).
  // ended: called with a stream whose lease ends, before it is forgotten.
  Streams(uint32_t maximum, std::function<void(Stream&)> ended);

  // Whether `most` streams are room for that many more: those that have been orphans for longer
  // than the grace make room. O(1) where nothing is full, else O(number of ordinals).
  bool has_room(uint32_t count, uint64_t most, uint64_t now_ns) const;
  // Throws Error(server_full), with the reason, unless the maximum is room for that many more.
  void require_room(uint32_t count, uint64_t now_ns) const;
  // Lowest free ordinal first, then new ones while there are fewer than `most`, then those orphaned
  // for longer than the grace. Throws as require_room does. O(1) amortised while there are free or
  // new ones.
  Lease lease(uint64_t holder, uint64_t now_ns, uint64_t most = kNoNumber);
  // The stream goes on where it was; throws Error(unknown_lease) when the token is not held.
  Lease resume(uint32_t ordinal, uint64_t token, uint64_t holder);
  // Ends the lease; false when it was not held. The stream's open episode is broken: its next row
  // (of another lease) must be FIRST, and items that still wait for rows retire.
  bool release(uint32_t ordinal, uint32_t epoch, uint64_t token);
  // All streams of a session that is gone become orphans. O(their number).
  void orphan(uint64_t holder, uint64_t now_ns);

  // The stream if that lease is held, else nullptr. An orphan whose token fits is adopted by
  // `holder` (0: stays an orphan). O(1).
  Stream* find(uint32_t ordinal, uint32_t epoch, uint64_t token, uint64_t holder = 0);
  // The same for a client that has shown the token before.
  Stream* find(uint32_t ordinal, uint32_t epoch);
  // By ordinal alone, leased or not; the ordinal exists.
  Stream& at(uint32_t ordinal) { return streams_[ordinal]; }

  uint32_t maximum() const { return maximum_; }
  uint32_t count() const { return static_cast<uint32_t>(streams_.size()); }  // of ordinals
  void save(std::vector<SavedStream>& saved) const;
  // From another life of the server: all are orphans, whose holders adopt them by their next
  // append.
  void restore(const std::vector<SavedStream>& saved);
  uint32_t leased_count() const { return leased_; }
  uint32_t orphaned_count() const;

 private:
  Stream* choose(uint64_t now_ns, uint64_t most);
  uint32_t held_count(uint64_t now_ns) const;
  Error full(uint32_t count, uint32_t held) const;
  uint32_t ordinal_of(const Stream& stream) const {
    return static_cast<uint32_t>(&stream - streams_.data());
  }
  void give_to(Stream& stream, uint64_t holder);
  Lease describe(const Stream& stream) const;

  uint32_t maximum_;
  std::function<void(Stream&)> ended_;
  std::vector<Stream> streams_;                               // by ordinal
  std::unordered_map<uint64_t, std::vector<uint32_t>> held_;  // by holder: ordinals
  size_t lowest_free_ = 0;                                    // no ordinal below it is free
  size_t next_orphan_ = 0;                                    // where the search goes on
  uint32_t leased_ = 0;
};

}  // namespace drlnet
