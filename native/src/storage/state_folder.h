// The folder of a server's state: whose it is, and that one server at a time has it. Threading: one
// thread; what it tells never changes.
#pragma once

#include <cstdint>
#include <string>

#include "storage/file.h"

namespace drlnet {

class StateFolder {
 public:
  // Makes the folder where there is none, and a lineage in an empty one; else this is the next
  // incarnation of the one that is there. epoch: what keys would begin with; grows over
  // incarnations. to_read: nothing is written, and the epoch is that of the last incarnation.
  // Throws Error(config): a folder of other files, of another number of shards, of another server
  // that runs, that cannot be written, that is damaged.
  StateFolder(const Path& path, uint32_t shards, uint16_t epoch, bool to_read = false);

  const Path& path() const { return path_; }
  Path shard(uint32_t shard) const { return path_ / ("shard-" + std::to_string(shard)); }
  uint64_t lineage() const { return lineage_; }
  uint64_t incarnation() const { return incarnation_; }
  uint32_t shards() const { return shards_; }
  uint16_t epoch() const { return epoch_; }
  bool to_read() const { return to_read_; }
  // A line for people, as Recovery's: what of the identity is damaged; empty where nothing is.
  const std::string& note() const { return note_; }

 private:
  void lock();
  void read();
  void write() const;

  Path path_;
  File lock_;
  uint64_t lineage_ = 0, incarnation_ = 0;
  uint32_t shards_ = 0;
  uint16_t epoch_ = 0;
  bool to_read_;
  std::string note_;
};

// The number of shards whose state a folder holds. Throws Error(config) where it holds none.
uint32_t shards_of_state(const Path& path);

}  // namespace drlnet
