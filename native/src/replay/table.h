// A table: a ring of rows shared by its streams, the items anchored in it, their priorities, and
// the limiter between insertion and sampling. It knows no session and no algorithm. Threading: one
// thread (its server's poll loop). Errors of the data path are Status values; nothing here throws
// after construction, and nothing allocates but lease() and a DrawnBatch that grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/loans.h"
#include "base/metrics.h"
#include "base/random.h"
#include "replay/changes.h"
#include "replay/freshness.h"
#include "replay/gather.h"
#include "replay/logical_table.h"
#include "replay/ring.h"
#include "replay/slot_bits.h"
#include "replay/streams.h"
#include "replay/table_state.h"
#include "replay/unsaved.h"
#include "sampler/sampler.h"
#include "spec/append.h"
#include "spec/items.h"
#include "spec/row_layout.h"

namespace drlnet {

class Table {
 public:
  // Checks the specification; throws Error(config). logical: what this shard of a table shares with
  // the others, where there are any; the limiter is that one's then, not the specification's.
  // index_only: its items are drawn by reference alone, see Ring; no queue.
  Table(TableSpec spec, uint8_t shard, uint16_t epoch, std::shared_ptr<LogicalTable> logical = {},
        bool index_only = false);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableSpec& spec() const { return spec_; }
  const SampleLayout& layout() const { return gather_.layout(); }
  // What a table of that kind will take.
  static uint64_t memory_bytes(const TableSpec& spec, bool index_only = false);
  bool index_only() const { return ring_.index_only(); }

  Streams& streams() { return streams_; }
  // To be called when leases came or went.
  void count_streams() { logical_->set_streams(shard(), streams_.leased_count()); }
  // Where a client that opens the table is to have its first stream.
  uint32_t emptiest_shard() { return logical_->emptiest(); }

  // All or nothing: on a Status other than ok (stream_gap, unknown_lease, bad_priority,
  // bad_request) nothing was applied. Rows that are stored already are ignored. A FIRST row in an
  // open episode breaks it: what still waits for its rows retires. O(rows + items).
  Status append(const Append& append, AppendResult& result);
  // Evicts all rows, and so their items. Streams go on at their next steps; totals stay.
  // O(capacity).
  void empty();
  // Whether items retire after a number of draws, see LimiterSpec::max_times_sampled.
  bool is_queue() const { return spec_.limiter.max_times_sampled > 0; }
  // Whether the append goes ahead now, at once; else `session` stands in line for it (see Waiter).
  // O(rows of a queue's append).
  bool may_insert(const Append& append, uint32_t session = 0);
  // Wait::none when `batch` draws go ahead now, by a draw() that follows at once; else why not, and
  // `session` stands in line. least: as Limiter::may_sample() has it.
  Wait may_sample(uint64_t batch, uint64_t least, uint32_t session = 0) {
    return logical_->ask({Waiter::Want::draw, shard(), session, batch, least});
  }
  Wait may_sample(uint64_t batch) { return may_sample(batch, batch); }
  // Whether this shard has that many to give.
  bool can_draw(uint64_t batch) const {
    return batch == 0 || (is_queue() ? draws_left_ >= batch : live_items() > 0);
  }
  // The request of this shard that is to ask again, if there is one.
  std::optional<Waiter> next_waiter() { return logical_->next(shard()); }
  void leave_line(uint32_t session) { logical_->leave(shard(), session); }
  // The table is dropped, see LogicalTable::end().
  std::vector<Waiter> end_line() { return logical_->end(shard()); }
  bool has_ended() const { return logical_->has_ended(); }
  // Draws `batch` items with replacement and counts them; a queue's at most as often as they may be
  // drawn. may_sample(batch) must be Wait::none.
  void draw(uint32_t batch, DrawnBatch& drawn) { draw(batch, drawn, false); }
  // The same, and where the items' rows lie: their ages are in place of their slots. from: items
  // whose anchors are older than the row of that key are not drawn, where the sampler can do so;
  // 0: of all. False: there is no other, and nothing is drawn.
  bool draw_references(uint32_t batch, uint64_t from, DrawnBatch& drawn);
  // Whether draw_references() would find some.
  bool has_items_from(uint64_t from) const {
    std::optional<Among> among;
    return find_among(from, among);
  }
  // See LogicalTable::pass_over().
  void pass_over(uint64_t draws) { logical_->pass_over(shard(), draws); }
  // See Gather::write().
  bool gather(const DrawnBatch& drawn, uint64_t offset, std::span<std::byte> out,
              Loans* loans = nullptr) const {
    return gather_.write(drawn, offset, out, {.loans = loans});
  }

  // The rows from the one of that key on, `most` at most; from the oldest held on where that one is
  // no longer stored. None where none has come. std::nullopt: no key of this table's, or of a row
  // that an index has no more.
  std::optional<FollowHeader> follow(uint64_t key, uint32_t most) const;
  // Those before the row of that key (0: before the one to come), the newest of them, `most` at
  // most; none where none is held. std::nullopt: no key of this table's.
  std::optional<FollowHeader> follow_back(uint64_t key, uint32_t most) const;
  const RowLayout& row_layout() const { return row_layout_; }
  // Writes bytes [offset, offset + out.size()) of that run of rows. False when one has been
  // overwritten. Rows are lent as by gather().
  bool gather_rows(const FollowHeader& run, uint64_t offset, std::span<std::byte> out,
                   Loans* loans = nullptr) const;

  // Live items get the priority; others are counted as stale and ignored. bad_priority applies
  // none.
  Status update_priorities(std::span<const uint64_t> keys, std::span<const float> priorities,
                           uint64_t& applied, uint64_t& stale);

  // No request waits now: see Sampler::work_ahead(). What the last draw showed goes into the
  // statistics.
  bool work_ahead(uint64_t now_ns);

  // The items of these keys as a reply of their own, in place of a draw: stored priorities for
  // probabilities, and kNoKey for what is not held. Counts as no draw. O(keys).
  void look_up(std::span<const uint64_t> keys, DrawnBatch& found) const;

  // What changed after the change numbered `since`, for a client with a sampler of its own
  // (wire/messages.h, new_priorities). Kept from the first call on: O(slots) then, and for a client
  // that is behind by more changes than two for each slot; else O(what is named).
  ChangesHeader changes(uint64_t since, uint32_t most, std::vector<uint64_t>& keys,
                        std::vector<float>& priorities);
  // Bytes that the next call of changes() adds to the table's memory.
  uint64_t bytes_to_keep_changes() const {
    return changes_ ? 0 : Changes::memory_bytes(ring_.size());
  }

  // For a server that keeps its state on disk. From here on changes are noted for save(), which
  // tells those since it was last called; the first one tells all. O(items).
  void begin_saving();
  void save(TableState& state);  // O(changes)
  // Rows from this number on are being read by another thread, until they are not (kNoNumber).
  void read_from(uint64_t number) { saving_from_ = number; }
  // The append has to wait: it would overwrite those.
  bool would_overwrite_saving(const Append& append);
  // Gives back what may_insert() granted, for an append that does not follow at once.
  void give_room_back() {
    way_ = {};
    count_stock(0);
  }
  const Ring& ring() const { return ring_; }
  // For a new table: returns its ring, for the rows [oldest, head) to be written to (but their
  // links); then restore() makes all else. Both throw Error(config) for what does not fit the
  // table. Of the rows' columns none need be there yet.
  Ring& restore_rows(const TableCounters& counters);
  void restore(const TableState& state);  // O(rows)
  // Whether they are needed at once: a queue copies rows that stay, and where the order of items
  // tells in what is drawn, older ones cannot come later.
  bool needs_columns() const { return is_queue() || sampler_->heeds_order(); }
  // The columns of the rows from that number on are in the ring: items that lacked no others can be
  // drawn, in their order. 0: those of all rows are.
  void have_columns_from(uint64_t number);
  uint64_t rows_without_columns() const {
    return columns_from_ - std::min(columns_from_, ring_.oldest());
  }
  // Columns of rows [first, end) will never come: items with such a row retire. The number of rows.
  uint64_t give_up(uint64_t first, uint64_t end);
  Ring& ring_to_fill() { return ring_; }

  uint32_t kept_rows() const { return ring_.row_slots(); }
  uint64_t head_key() const { return key_base_ + ring_.head(); }   // of the row to come
  uint64_t rows() const { return ring_.head() - ring_.oldest(); }  // logical: at most capacity
  uint64_t live_items() const { return sampler_->size(); }
  uint64_t env_steps() const { return env_steps_; }
  // For the server, which lets requests wait for the limiter.
  WaitTimes& waits() { return waits_; }
  // Time goes by: now and then, and when params are published.
  void mark(uint64_t now_ns, uint64_t params_version) {
    freshness_.mark({ring_.head(), now_ns, params_version}, ring_.oldest());
  }
  void read_metrics(const std::string& prefix, Metrics& metrics, uint64_t now_ns) const;
  // Recomputes every invariant from scratch: states, links, masses, counts. For tests. O(capacity).
  bool consistent() const;

 private:
  struct ItemPlace;  // of the item that an append placed last, see table_append.cc

  uint32_t shard() const { return static_cast<uint32_t>(key_base_ >> kKeyShardShift); }

  // What moves to the head instead of leaving: what streams have begun, items that can be drawn.
  enum class Moves : uint8_t { begun, both, live };
  // How a queue's append to come finds room: its new rows, and those that move for them.
  struct Way {
    uint64_t rows = 0, moved = 0;
    Moves moves = Moves::begun;
  };

  // Leaves from that slot on, up to the head, and their mass.
  struct Among {
    uint32_t first;
    double mass;
  };
  bool find_among(uint64_t from, std::optional<Among>& among) const;
  void draw(uint32_t batch, DrawnBatch& drawn, bool whole, std::optional<Among> among = {});
  void draw_from_queue(std::span<uint32_t> slots, std::span<float> probabilities);
  size_t pick_live(std::span<const uint64_t> keys, std::span<const float> priorities,
                   std::span<uint32_t> slots, std::span<float> live) const;

  void count_stock(uint64_t created);

  // table_room.cc
  bool find_room(uint64_t rows, bool has_batch);
  uint64_t begun_from(const Stream& stream) const;
  std::optional<uint64_t> clear_tail(uint64_t rows, Moves moves, bool really);
  void move_begun(Stream& stream, RowPlace first, uint64_t count);
  void move_rows(RowPlace from, uint64_t count, uint8_t flags, uint64_t anchor);
  void move_item(uint32_t from, uint32_t to);

  // table_append.cc
  Status check_append(const Append& append, AppendResult& result);
  Status check_segment(const Append& append, const AppendSegment& segment,
                       std::span<const uint8_t> flags, AppendResult& result);
  void store_rows(const Append& append, const AppendSegment& segment, size_t first_row,
                  size_t rows);
  void store_piece(const Append& append, Stream& stream, uint32_t ordinal, size_t first_row,
                   size_t rows);
  void evict(RowPlace place);
  uint64_t new_rows(const Append& append);
  enum class Added { created, known, refused };
  Added add_item(const AppendItem& item, ItemPlace& latest);
  uint64_t period_step(const Row& row) const { return reach_.stops ? row.since_first : row.step; }
  SampleHeader header_of(uint32_t batch) const;
  void list_items();
  static double skew_of(const DrawnBatch& drawn);
  void complete_items(const Stream& stream, uint64_t new_rows, bool broken);
  void go_live(uint32_t slot, float priority, uint32_t length);
  void make_drawable(uint32_t slot, float priority);
  void retire(uint32_t slot);
  void retire_useless();
  void link_rows();
  void check_newest(const Stream& stream, bool held, RowPlace newest) const;
  void restore_item(SavedItem item, uint64_t slots);

  TableSpec spec_;
  Reach reach_;
  uint64_t key_base_;
  Ring ring_;
  Gather gather_;
  RowLayout row_layout_;
  Streams streams_;
  std::shared_ptr<LogicalTable> logical_;
  uint64_t items_created_ = 0, items_drawn_ = 0;
  uint64_t room_ = 0;  // that the append to come was given
  Way way_;
  std::unique_ptr<Sampler> sampler_;
  // Whether a slot's item is live: a bit each, for updates, which else wait for row after row.
  SlotBits drawable_;
  std::unique_ptr<Changes> changes_;       // once a client asked for them
  uint64_t listed_ = 0;                    // the change after which all items are named
  std::unique_ptr<Unsaved> unsaved_;       // of a server that keeps its state
  uint64_t saving_from_ = kNoNumber;       // see read_from()
  std::vector<SavedItem> restored_items_;  // until begin_saving()
  bool restored_ = false;
  // A live item that cannot be drawn yet: it lacks columns of rows from `oldest` on.
  struct Late {
    uint64_t oldest, number;
    float priority;
  };
  std::vector<Late> late_;  // a heap: those that lack the fewest rows first
  uint64_t columns_from_ = 0;
  Random random_;
  float maximum_priority_ = 1;  // of all raw priorities so far
  uint64_t append_count_ = 0, scan_count_ = 0;
  uint64_t env_steps_ = 0;
  uint64_t pending_items_ = 0;
  uint64_t draws_left_ = 0;  // of a queue's live items
  uint64_t items_ignored_ = 0, items_refused_ = 0, items_retired_ = 0, rows_ignored_ = 0;
  uint64_t rows_moved_ = 0;
  uint64_t applied_updates_ = 0, stale_updates_ = 0;
  WaitTimes waits_;
  Freshness freshness_;
  // The last batch that was drawn, until work_ahead() has taken note of it. One a round: which one
  // says nothing of its age, and to note each takes 60 ns.
  struct Seen {
    double skew;
    uint64_t number;  // of one of its items
  };
  std::optional<Seen> seen_;
  RecentMean skew_;  // of drawn items: their probability, times the number of live ones
};

}  // namespace drlnet
