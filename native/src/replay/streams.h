// The streams of a table: leased identities, independent of any connection. An ordinal is small and
// reused after release; its epoch grows with each lease, so that late appends of a former holder are
// recognised. Threading: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/metrics.h"

namespace drlnet {

struct Lease {  // travels as it is
  uint32_t ordinal;
  uint32_t epoch;
  uint64_t token;      // resumes the stream from anywhere; unpredictable
  uint64_t next_step;  // the step that the server expects
};
static_assert(sizeof(Lease) == 24);

constexpr uint32_t kNoSlot = 0xFFFFFFFF;

struct Stream {
  uint32_t epoch = 0;
  bool leased = false;
  uint64_t token = 0;
  uint64_t next_step = 0;
  uint32_t last_slot = kNoSlot;  // of its newest row, kNoSlot when it has none that the ring holds
  uint64_t holder = 0;           // the session that leased it last, 0: orphaned
  uint64_t orphaned_at_ns = 0;
};

class Streams {
 public:
  // maximum: how many may be leased at once (capacity / (2 * window), the deadlock rule).
  explicit Streams(uint32_t maximum);

  // Lowest free ordinal first, then new ones, then those orphaned for longer than the grace.
  // Throws Error(server_full) with the reason. O(number of ordinals).
  Lease lease(uint64_t holder, uint64_t now_ns);
  // The stream goes on where it was; throws Error(unknown_lease) when the token is not held.
  Lease resume(uint32_t ordinal, uint64_t token, uint64_t holder);
  // Ends the lease; false when it was not held. The stream's open episode is broken: its next row
  // (of another lease) must be FIRST, and items that still wait for rows retire.
  bool release(uint32_t ordinal, uint32_t epoch, uint64_t token);
  // All streams of a session that is gone become orphans.
  void orphan(uint64_t holder, uint64_t now_ns);

  // The stream if that lease is held, else nullptr. Adopts orphans whose token fits. O(1).
  Stream* find(uint32_t ordinal, uint32_t epoch, uint64_t token);
  uint32_t leased_count() const;
};

}  // namespace drlnet
