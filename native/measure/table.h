// A server's answer to a sample request without a network: what is drawn, gathered and written by
// the code that serves it, into memory instead of frames. Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "measure/loop.h"
#include "replay/table.h"
#include "session/server/peer.h"

namespace drlnet::measure {

class FullTable {
 public:
  // Fills the table with random rows: streams that append in turn, as a writer of that many
  // environments does, in episodes of kEpisode rows, an item on each but the last. The
  // specification's limiter must let every draw pass. Throws Error(config).
  explicit FullTable(TableSpec spec);

  static constexpr uint32_t kStreams = 8, kRowsPerAppend = 64, kEpisode = 200;

  // Whole replies, each drawn anew and written frame by frame.
  size_t samples(uint32_t batch, const Loop& loop);
  std::span<const std::byte> reply() const { return reply_; }  // the last one

  const Table& table() const { return table_; }

 private:
  void fill();

  Table table_;
  Slot slot_;
  std::vector<std::byte> reply_;
};

}  // namespace drlnet::measure
