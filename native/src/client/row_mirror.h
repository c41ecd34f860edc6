// The rows of one shard of a table as they come: an array for each column, of which batches are
// gathered that the server only names. It holds as many rows as the server's ring has slots.
// Columns that are kept apart are copied to where batches are put together, a GPU say: in their
// stead an item shows where its rows lie there, and 0 for a row of zeros.
// Threading: one thread stores; any thread waits and gathers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/mapping.h"
#include "client/client.h"
#include "rows/columns.h"
#include "rows/drawn.h"
#include "rows/gather.h"
#include "session/client/destination.h"
#include "spec/items.h"
#include "spec/row_layout.h"

namespace drlnet {

// What the keys of one table in one life of its server have before the number.
constexpr uint64_t base_of(uint64_t key) { return key - number_of(key); }

// The same table with a number in the stead of those columns. apart: none, or a flag for each.
TableSpec numbered(TableSpec spec, const std::vector<bool>& apart);

class RowMirror {
 public:
  // part: the shard's. Takes memory as rows come.
  // apart: the columns that are kept apart; first_place: where the row of slot 0 lies there.
  explicit RowMirror(const TableSpec& part, const std::vector<bool>& apart = {},
                     uint32_t first_place = 1);
  static uint64_t memory_bytes(const TableSpec& part);

  // The key that a follower asks for next; 0: it has heard of no row.
  uint64_t next_key() const { return next_key_; }
  // The key of the oldest row that is here: those before it are asked for until the server has
  // none.
  uint64_t first_key() const { return next_key_ - head_ + begin_; }
  bool whole() const { return whole_; }  // all are here that the server had
  void end_older();
  // Lets all go: the server has been started again, and its keys are others.
  void forget();
  // Takes a follow reply; throws Error(protocol) where it is none. Rows that are here are passed
  // over. Those before a gap are let go: the server holds them no more.
  FollowHeader store(std::span<const std::byte> reply);
  // No row comes any more: waits end by throwing this.
  void fail(std::exception_ptr failure);

  // Waits until all rows of these numbers, [oldest, end), are here, or the server has those no more
  // that are missing: whether it took any waiting. base: of their keys, see base_of(). interrupt:
  // see Client.
  bool wait_for(uint64_t base, uint64_t oldest, uint64_t end, Deadline deadline,
                const std::function<void()>& interrupt);
  void wait_until_whole(Deadline deadline, const std::function<void()>& interrupt);
  // Where draws are to begin: the key of the oldest row; 0: anywhere, as the server holds none that
  // is older. Waits until something is known of the server's.
  uint64_t from(Deadline deadline, const std::function<void()>& interrupt);
  // Waits until rows come, or the deadline. Throws what ended the mirror.
  void wait_for_news(Deadline deadline);
  // Gathers the items of a sample by reference, whose ages lie in drawn.slots, into
  // places_of(their number) of a reply with their rows. Those with a row that is not here any more
  // are taken out of `drawn`. Returns how many are left, which come first.
  uint32_t gather(DrawnBatch& drawn, FunctionRef<const Places&(uint32_t)> places_of);

  // Rows [begin, end) of one life of the server, which lie apart as well.
  struct Copied {
    uint64_t base = 0, begin = 0, end = 0;
  };
  struct Run {
    uint64_t place = 0, count = 0;
  };
  // Copies the next rows that `copied` lacks, as the newest gather() saw them: those of the i-th
  // column that is kept apart to to[i]. They belong at that place. count: 0 where it lacks none.
  Run copy_apart(Copied& copied, std::span<const std::span<std::byte>> to) const;
  // Whether `copied` has all rows that gather() has shown since the last call that let them go.
  bool has_shown(const Copied& copied, bool let_go);

  uint64_t rows() const { return stored_; }  // so far
  uint64_t head() const { return head_; }    // number of the row to come, as far as is known here
  uint64_t behind() const;                   // rows that the server had besides, at last

 private:
  uint64_t older() const;  // rows that may still come
  void put(std::span<const std::byte> reply, const FollowHeader& run, uint64_t from, uint64_t to);
  bool wait(Deadline deadline, const std::function<void()>& interrupt,
            FunctionRef<uint64_t()> missing);
  uint32_t keep_held(DrawnBatch& drawn);
  void note_shown(uint64_t oldest);
  void write(const DrawnBatch& drawn, const Places& places) const;

  Reach reach_;
  SampleLayout batch_layout_;
  RowLayout row_layout_;
  uint32_t size_;
  Mapping memory_;
  std::vector<RowColumn> columns_, shown_;  // as they came, and as items show them
  std::vector<size_t> apart_;
  uint32_t first_place_;
  std::vector<uint32_t> places_;          // of all slots
  mutable std::shared_mutex rows_mutex_;  // of what the columns hold, and of the two that follow
  uint64_t capacity_;                     // rows that the server holds
  // All rows of numbers [begin_, head_) are here, but for those that later ones have overwritten.
  // Change under news_mutex_, too.
  std::atomic<uint64_t> begin_ = 0, head_ = 0;
  std::atomic<bool> whole_ = false;
  std::atomic<uint64_t> base_ = 0;  // of keys; counts once known_
  std::atomic<bool> known_ = false;
  uint64_t next_key_ = 0;                          // the storing thread's
  std::atomic<uint64_t> stored_ = 0, behind_ = 0;  // newer ones
  std::atomic<uint64_t> gathered_head_ = 0;        // at the newest gather
  std::mutex shown_mutex_;                         // of what gather() has shown
  uint64_t shown_base_ = 0, shown_oldest_ = UINT64_MAX;
  std::mutex news_mutex_;  // of what follows
  std::condition_variable news_;
  std::exception_ptr failure_;
};

}  // namespace drlnet
