// The server's state: how it comes from disk, and how it gets there.
#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "base/world.h"
#include "server/server.h"

namespace drlnet {
namespace {

// Versions of params that may be given before a record says so. Clients may have seen them when the
// server is killed: the next life passes over all of them.
constexpr uint64_t kReservedVersions = 64;

}  // namespace

// Makes the tables of the newest record that is whole, its rows included.
void Server::recover(const ServerOptions& options, ReadProgress& progress) {
  keeper_ = std::make_unique<Keeper>(options.state, shard_, options.durability_ns, progress);
  Recovery& recovery = keeper_->recovery();
  std::vector<LateTable> late;
  while (recovery.state() != nullptr && !recover_tables(recovery, late)) {
    late.clear();
    state_notes_.clear();
    tables_ = {};
    memory_used_ = 0;
  }
  uint64_t record = 0, blobs_version = 0;
  if (const SavedState* state = recovery.state()) {
    recovered_ = true;
    record = state->sequence;
    params_ = recovery.params();
    // Where something is damaged, a record may be that reserved more.
    params_passed_ = recovery.notes().empty() ? state->params_version
                                              : recovery.last_params_version() + kReservedVersions;
    blobs_version = state->blobs_version;
    for (const SavedBlob& blob : state->blobs) {
      blobs_.restore(blob.name, {blob.version, blob.bytes});
    }
    if (shards_ && shard_ == 0) shards_->params_version.store(own_params_version());
  }
  // The folder counts lives apart from its records, of which some may be damaged.
  blobs_.go_on_from(blobs_version, options.state->incarnation());
  const std::string& note = options.state->note();
  if (shard_ == 0 && !note.empty()) state_notes_.push_back(note);
  state_notes_.insert(state_notes_.end(), recovery.notes().begin(), recovery.notes().end());
  if (shards_ && shard_ == 0) {
    shards_->first_is_whole.store(recovered_ && recovery.notes().empty());
  }
  progress.add(0);  // from here on it is written
  keeper_->begin(record, [this] { retry(); });
  if (!keeper_->writes()) {  // what is only read is there as a whole
    for (LateTable& one : late) place_all_columns(one, state_notes_);
    return;
  }
  for (const OpenTable& open : tables_) open.table->begin_saving();
  params_reserved_ = 0;
  // Before a client hears of this incarnation: what it is told must come after all that the one
  // before has told. And whether the disk takes anything shows at once.
  begin_cut(now_ns());
  keeper_->storage().finish();
  // From here on clients come. They draw what is there.
  if (!late.empty()) loader_ = std::make_unique<RowLoader>(std::move(late), [this] { retry(); });
}

// The columns of rows that this life has not had yet, as they come from disk. True: some came.
bool Server::load_columns() {
  std::vector<std::string> notes;
  if (!loader_->place_next(notes)) return false;
  if (!notes.empty()) {
    const std::lock_guard lock(readers_mutex_);
    state_notes_.insert(state_notes_.end(), notes.begin(), notes.end());
  }
  if (loader_->finished()) loader_.reset();
  sessions_.retry();
  return true;
}

bool Server::recover_tables(Recovery& recovery, std::vector<LateTable>& late) {
  const SavedState& state = *recovery.state();
  tables_.restore(state.next_table, state.dropped);
  for (size_t i = 0; i < recovery.state()->tables.size(); ++i) {
    const SavedTable& saved = recovery.state()->tables[i];
    TableSpec asked = saved.asked;
    choose_sampler(asked);  // it may have been started with another one
    OpenTable open;
    try {
      open = make_table(std::move(asked));
    } catch (const Error& error) {
      // The first shard has dropped it already, and may have another one of its name; this one had
      // not heard of it. Or what is damaged there is all that knew it.
      const bool mismatch = error.status() == Status::table_mismatch;
      if (shard_ == 0 || (!mismatch && error.status() != Status::table_dropped)) throw;
      if (mismatch || !shards_->first_is_whole.load()) note_given_up(saved);
      continue;
    }
    open.number = saved.number;
    open.rows_saved = saved.state.counters.head;
    LateTable one{open.table, nullptr, saved.asked.name};
    one.rows = recovery.load(saved, *open.table);
    if (!one.rows) return false;  // `saved` is gone, too
    if (open.table->needs_columns()) {
      place_all_columns(one, state_notes_);
    } else {
      late.push_back(std::move(one));
    }
    tables_.restore(std::move(open));
  }
  return true;
}

void Server::note_given_up(const SavedTable& saved) {
  const TableCounters& counters = saved.state.counters;
  state_notes_.push_back(std::to_string(counters.head - counters.oldest) + " rows of table '" +
                         printable(saved.asked.name) +
                         "' are given up: the first shard has it no more");
}

void Server::keep_state(uint64_t now) {
  if (!keeper_->writes()) return;
  if (const auto cut = keeper_->storage().take_written()) end_cut(*cut);
  if (!keeper_->busy() && keeper_->due(now)) begin_cut(now);
}

// last: no version of params is given any more.
void Server::begin_cut(uint64_t now, bool last) {
  auto cut = std::make_unique<Cut>();
  cut->began_ns = now;
  cut->params = params_;
  cut->state.sequence = keeper_->begin_cut();
  cut->state.next_table = tables_.next_number();
  cut->state.params_version = last_params_version() + (last ? 0 : kReservedVersions);
  cut->state.dropped = tables_.dropped_tables();
  cut->state.blobs_version = blobs_.version();
  for (const auto& [name, blob] : blobs_) {
    if (blob.version > blobs_saved_) cut->state.blobs.push_back({name, blob.version, blob.bytes});
  }
  blobs_saved_ = blobs_.version();
  for (const OpenTable& open : tables_) {
    SavedTable& saved = cut->state.tables.emplace_back();
    saved.number = open.number;
    saved.asked = open.asked;
    open.table->save(saved.state);
    // Rows that came and went since the last cut are in none.
    const uint64_t from = std::max(open.rows_saved, saved.state.counters.oldest);
    open.table->read_from(from);
    cut->rows_from.push_back(from);
    cut->tables.push_back(open.table);
  }
  keeper_->storage().write(std::move(cut));
}

void Server::end_cut(const Cut& cut) {
  for (const SavedTable& saved : cut.state.tables) {
    OpenTable* open = tables_.find(saved.number);
    if (open == nullptr) continue;
    open->rows_saved = saved.state.counters.head;
    open->table->read_from(kNoNumber);
  }
  params_reserved_ = cut.state.params_version;
  keeper_->end_cut(cut.state.sequence);
  sessions_.retry();
}

// Whether the append waits: it would overwrite rows that are being written, or the disk takes
// nothing, and what is acknowledged would not be there in time.
uint16_t Server::append_waits(Table& table, const Append& append, const Peer& peer,
                              const Slot& slot) {
  if (!keeper_->writes()) return 0;
  if (!keeper_->storage().in_trouble() && !table.would_overwrite_saving(append)) return 0;
  table.give_room_back();
  return keeper_->wait(peer, slot);
}

void Server::note_durability(AppendResult& result) const {
  if (!keeper_->writes() || keeper_->answers_wait()) return;
  result.record = keeper_->next_record();
  result.written = keeper_->written();
}

// The last cut, after the last answer.
void Server::finish_state() {
  if (!keeper_->writes()) return;
  Storage& storage = keeper_->storage();
  if (keeper_->busy()) storage.finish();
  if (const auto cut = storage.take_written()) end_cut(*cut);
  begin_cut(now_ns(), true);
  storage.finish();
}

}  // namespace drlnet
