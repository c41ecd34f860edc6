// Keeps a shard's state on disk beside its loop: when a cut is due, which answers wait for one, and
// how things stand. Threading: the loop's thread, but for trouble().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "replay/table.h"
#include "session/server/peer.h"
#include "storage/recovery.h"
#include "storage/state_folder.h"
#include "storage/storage.h"

namespace drlnet {

// A request that waits for the disk.
struct Promise {
  uint32_t connection = 0;
  Lane lane{};
  uint64_t record = 0;  // that must be on disk; 0: the one that is being written, whichever it is
  bool ran = false;     // and what it answered:
  Bytes reply;
};

class Keeper {
 public:
  // progress: see Recovery; outlives begin().
  Keeper(std::shared_ptr<const StateFolder> folder, uint32_t shard, uint64_t durability_ns,
         ReadProgress& progress);

  // Bytes that a table of that many slots takes besides its own: here, and in Storage.
  static uint64_t memory_bytes(uint64_t slots) { return Unsaved::memory_bytes(slots) + 8 * slots; }

  Recovery& recovery() { return *recovery_; }
  // What is found has been made use of. done: see Storage.
  void begin(uint64_t sequence, std::function<void()> done);
  bool writes() const { return storage_ != nullptr; }
  Storage& storage() { return *storage_; }
  std::string trouble() const { return storage_ ? storage_->trouble() : ""; }

  // Something to do at once: a cut is on disk, or a client waits for one.
  bool has_news() const { return storage_ && (storage_->has_written() || (wanted_ && !busy())); }
  bool busy() const { return storage_->busy(); }
  bool due(uint64_t now) const { return wanted_ || (changed_ns_ != 0 && now >= due_ns()); }
  // When what has changed is to be cut, so that it is on disk in time.
  uint64_t due_ns() const;
  // The number of the record that the next cut is, and of the newest one on disk.
  uint64_t next_record() const { return next_; }
  uint64_t written() const { return written_record_; }
  void want_cut() { wanted_ = true; }
  uint64_t begin_cut();  // its number
  void end_cut(uint64_t record);

  // What a request that ran has changed, and whether its answer waits for the disk: then why.
  uint16_t hold(const Peer& peer, Slot& slot, uint64_t now);
  // A request that could not run waits for the cut under way, or for the next one.
  uint16_t wait(const Peer& peer, const Slot& slot);
  Promise* find(uint32_t connection, Lane lane);
  void forget(Promise& promise);
  // Its answer, or why it waits on.
  uint16_t answer(Promise& promise, Slot& slot);
  // Those that may go on, once after each cut.
  std::vector<std::pair<uint32_t, Lane>> take_ready();
  void ended(uint32_t connection);
  bool answers_wait() const { return durability_ns_ == 0; }

  void read_metrics(Metrics& metrics, uint64_t now) const;

 private:
  const std::shared_ptr<const StateFolder> state_;  // locked as long as it is held
  const Path folder_;
  const uint64_t durability_ns_;
  std::unique_ptr<Recovery> recovery_;
  std::unique_ptr<Storage> storage_;  // null: nothing is written
  uint64_t next_ = 1, written_record_ = 0;
  uint64_t changed_ns_ = 0;      // since when something is in no cut; 0: nothing is
  uint64_t cut_changed_ns_ = 0;  // ... is not on disk, but in the cut
  bool wanted_ = false;
  bool look_ = false;  // a cut has come to its end since take_ready()
  std::vector<Promise> promises_;
};

}  // namespace drlnet
