#include <utility>

#include "base/assert.h"
#include "client/sharded_table.h"

namespace drlnet {

ShardedStream::ShardedStream(ShardedTable& table, const BatchLayout& batch,
                             std::vector<std::span<std::byte>> buffers)
    : table_(table), batch_(batch), buffers_(std::move(buffers)), splits_(buffers_.size()) {
  DRLNET_ASSERT(!buffers_.empty());
  for (size_t i = 0; i < buffers_.size(); ++i) idle_.push_back(i);
  if (buffers_.size() > 1) table_.keep_moving(batch_);
}

ShardedStream::~ShardedStream() {
  for (const size_t buffer : ahead_) table_.abandon(splits_[buffer]);
}

void ShardedStream::ask_ahead(Deadline deadline) {
  while (!idle_.empty() && (ahead_.empty() || !table_.is_queue())) {
    const size_t buffer = idle_.back();
    splits_[buffer] = table_.begin(batch_, buffers_[buffer]);
    try {
      table_.ask(splits_[buffer], batch_, buffers_[buffer], deadline);
    } catch (const ShardLost&) {  // next() asks the others
      table_.begin_anew(splits_[buffer], batch_, buffers_[buffer]);
    }
    idle_.pop_back();
    ahead_.push_back(buffer);
  }
}

size_t ShardedStream::next(Deadline deadline) {
  ask_ahead(deadline);
  while (!ready_) {
    const size_t buffer = ahead_.front();
    SplitSample& split = splits_[buffer];
    // On a timeout what is asked for stays, and what has come: next() may be called again.
    try {
      table_.gather(split, batch_, buffers_[buffer], deadline);
    } catch (const ShardLost&) {
      table_.begin_anew(split, batch_, buffers_[buffer]);
    }
    if (!table_.taken(split, batch_, buffers_[buffer], deadline)) continue;
    ready_ = buffer;
    ahead_.pop_front();
  }
  ask_ahead(deadline);
  idle_.push_back(*ready_);
  return *std::exchange(ready_, std::nullopt);
}

}  // namespace drlnet
