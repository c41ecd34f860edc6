#include "client/row_mirror.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/streaming_copy.h"

namespace drlnet {
namespace {

constexpr uint64_t kLookNs = 50'000'000;  // between looks at the deadline and for an interruption
// Replies of that size go past them, too: see session/client/destination.cc.
constexpr uint64_t kPastCachesBytes = uint64_t{8} << 20;

[[noreturn]] void throw_malformed() {
  throw Error(Status::protocol, "rows that a client follows do not parse",
              "install the same drlnet on both sides");
}

// Whether keys with that base are of a later life of the server, whose epochs count round.
bool later(uint64_t base, uint64_t other) {
  const auto epoch = [](uint64_t of) { return static_cast<uint16_t>(of >> kKeyNumberBits); };
  return static_cast<int16_t>(epoch(base) - epoch(other)) > 0;
}

}  // namespace

uint64_t RowMirror::memory_bytes(const TableSpec& part) {
  return ring_slots(part) * part.row_bytes();
}

TableSpec numbered(TableSpec spec, const std::vector<bool>& apart) {
  for (size_t c = 0; c < apart.size(); ++c) {
    if (apart[c]) spec.columns[c] = {spec.columns[c].name, DataType::u32, {}};
  }
  return spec;
}

RowMirror::RowMirror(const TableSpec& part, const std::vector<bool>& apart, uint32_t first_place)
    : reach_(part.item),
      batch_layout_(numbered(part, apart)),
      row_layout_(part),
      size_(static_cast<uint32_t>(ring_slots(part))),
      memory_(memory_bytes(part) + SampleLayout::align64(1) * part.columns.size()),
      first_place_(first_place),
      capacity_(part.capacity) {
  uint64_t offset = 0;
  for (size_t c = 0; c < row_layout_.columns(); ++c) {
    const uint64_t bytes = row_layout_.row_bytes(c);
    columns_.push_back({memory_.data() + offset, bytes, bytes});
    offset = SampleLayout::align64(offset + size_ * bytes);
  }
  shown_ = columns_;
  for (size_t c = 0; c < apart.size(); ++c) {
    if (apart[c]) apart_.push_back(c);
  }
  if (apart_.empty()) return;
  places_.resize(size_);
  std::iota(places_.begin(), places_.end(), first_place_);
  for (const size_t c : apart_) {
    shown_[c] = {reinterpret_cast<std::byte*>(places_.data()), sizeof(uint32_t), sizeof(uint32_t)};
  }
}

FollowHeader RowMirror::store(std::span<const std::byte> reply) {
  FollowHeader run;
  if (reply.size() < sizeof run) throw_malformed();
  std::memcpy(&run, reply.data(), sizeof run);
  const uint64_t first = number_of(run.first), end = first + run.count;
  if (run.count > size_ || reply.size() != row_layout_.total_bytes(run.count) ||
      number_of(run.head) < end) {
    throw_malformed();
  }
  const bool follows = known_ && run.first - first == base_;
  if (follows && first < begin_) {  // older ones
    if (end < begin_ || whole_) return run;
    // The newest overwrite what would be too old.
    put(reply, run, std::max(first, head_ - std::min<uint64_t>(head_, size_)), begin_);
  } else {
    put(reply, run, follows ? std::clamp<uint64_t>(head_, first, end) : first, end);
  }
  behind_ = run.head - std::min(run.head, next_key_);
  return run;
}

// Those rows of a run. They touch the others, or take their place.
void RowMirror::put(std::span<const std::byte> reply, const FollowHeader& run, uint64_t from,
                    uint64_t to) {
  const uint64_t first = number_of(run.first), base = run.first - first;
  {
    const std::unique_lock lock(rows_mutex_);
    for (size_t c = 0; c < columns_.size(); ++c) {
      const RowColumn& column = columns_[c];
      const std::byte* rows = reply.data() + row_layout_.column(run.count, c);
      for (uint64_t number = from; number < to;) {
        const uint64_t slot = number % size_;
        const uint64_t count = std::min<uint64_t>(to - number, size_ - slot);
        std::memcpy(column.at(slot), rows + (number - first) * column.row_bytes,
                    count * column.row_bytes);
        number += count;
      }
    }
    const std::lock_guard news(news_mutex_);
    const bool gap = known_ && (base != base_ || from > head_);
    if (known_ && !gap && from < begin_) {
      begin_ = from;
    } else {
      if (!known_ || gap) begin_ = from;
      if (gap) whole_ = true;  // from the oldest on
      head_ = gap || !known_ ? to : std::max<uint64_t>(head_, to);
    }
    base_ = base;
    known_ = true;
    stored_ += to - std::min(from, to);
  }
  news_.notify_all();
  next_key_ = base + head_;
}

void RowMirror::forget() {
  const std::unique_lock lock(rows_mutex_);
  const std::lock_guard news(news_mutex_);
  known_ = whole_ = false;
  begin_ = head_ = 0;
  next_key_ = 0;
}

void RowMirror::end_older() {
  const std::lock_guard lock(news_mutex_);
  whole_ = true;
  news_.notify_all();
}

// As many as the server can hold, and there have been.
uint64_t RowMirror::older() const {
  if (whole_ || !known_) return 0;
  const uint64_t begin = begin_, here = head_ - begin;
  return std::min(begin, capacity_ - std::min(capacity_, here));
}

uint64_t RowMirror::behind() const { return behind_ + older(); }

void RowMirror::fail(std::exception_ptr failure) {
  const std::lock_guard lock(news_mutex_);
  failure_ = std::move(failure);
  news_.notify_all();
}

bool RowMirror::wait_for(uint64_t base, uint64_t oldest, uint64_t end, Deadline deadline,
                         const std::function<void()>& interrupt) {
  return wait(deadline, interrupt, [&]() -> uint64_t {
    const uint64_t head = head_, begin = begin_;
    if (!known_ || base_ != base) return !known_ || later(base, base_) ? end - oldest : 0;
    return (end > head ? end - head : 0) + (!whole_ && begin > oldest ? begin - oldest : 0);
  });
}

uint64_t RowMirror::from(Deadline deadline, const std::function<void()>& interrupt) {
  wait(deadline, interrupt, [&]() -> uint64_t { return known_ ? 0 : 1; });
  const uint64_t begin = begin_;
  return begin == 0 || begin + capacity_ <= head_ ? 0 : base_ + begin;
}

void RowMirror::wait_for_news(Deadline deadline) {
  const uint64_t now = waking_ns(), stored = stored_;
  std::unique_lock lock(news_mutex_);
  news_.wait_for(lock, std::chrono::nanoseconds(deadline - std::min(now, deadline)),
                 [&] { return failure_ || stored_ != stored; });
  if (failure_) std::rethrow_exception(failure_);
}

void RowMirror::wait_until_whole(Deadline deadline, const std::function<void()>& interrupt) {
  wait(deadline, interrupt, [&]() -> uint64_t { return whole_ ? behind_.load() : 1; });
}

bool RowMirror::wait(Deadline deadline, const std::function<void()>& interrupt,
                     FunctionRef<uint64_t()> missing) {
  if (missing() == 0) return false;
  const uint64_t began = waking_ns();
  std::unique_lock lock(news_mutex_);
  while (const uint64_t rows = missing()) {
    if (failure_) std::rethrow_exception(failure_);
    const uint64_t now = waking_ns();
    if (now >= deadline) {
      std::array<char, 32> seconds;
      std::snprintf(seconds.data(), seconds.size(), "%.3g s",
                    static_cast<double>(now - std::min(now, began)) / 1e9);
      throw Error(Status::timeout,
                  std::string("waited ") + seconds.data() + " for the mirror: " +
                      std::to_string(rows) + " rows of a drawn batch are on their way",
                  "allow more time, or use a faster link: rows come once, and in order");
    }
    news_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline - now, kLookNs)));
    if (!interrupt) continue;
    lock.unlock();
    interrupt();
    lock.lock();
  }
  return true;
}

uint32_t RowMirror::gather(DrawnBatch& drawn, FunctionRef<const Places&(uint32_t)> places_of) {
  const std::shared_lock lock(rows_mutex_);
  // Keys of the server's life before name other rows, if any.
  if (!drawn.keys.empty() && base_of(drawn.keys[0]) != base_) drawn.keys.clear();
  const uint32_t left = keep_held(drawn);
  if (left > 0) write(drawn, places_of(left));
  return left;
}

void RowMirror::note_shown(uint64_t oldest) {
  const std::lock_guard lock(shown_mutex_);
  // No copy has rows of two lives of the server.
  const bool mixed = shown_oldest_ != UINT64_MAX && shown_base_ != base_;
  shown_base_ = base_;
  shown_oldest_ = mixed ? 0 : std::min(shown_oldest_, oldest);
  gathered_head_ = head_.load();
}

RowMirror::Run RowMirror::copy_apart(Copied& copied,
                                     std::span<const std::span<std::byte>> to) const {
  const std::shared_lock lock(rows_mutex_);
  if (!known_) return {};
  const uint64_t head = std::min<uint64_t>(gathered_head_, head_);
  const uint64_t begin = std::max<uint64_t>(begin_, head_ > size_ ? head_ - size_ : 0);
  if (copied.base != base_ || copied.end < begin || copied.end > head_) {
    copied = {base_, std::min(begin, head), std::min(begin, head)};
  }
  uint64_t from = copied.end, until = head;
  const bool newer = from < until;
  if (!newer) {  // those that came after newer ones
    from = std::max(begin, copied.end > size_ ? copied.end - size_ : 0);
    until = copied.begin;
  }
  if (from >= until) return {};
  uint64_t count = until - from;
  for (size_t i = 0; i < apart_.size(); ++i) {
    count = std::min<uint64_t>(count, to[i].size() / columns_[apart_[i]].row_bytes);
  }
  // Next to the copied ones, on this side of the ring's end.
  if (newer) {
    count = std::min(count, size_ - from % size_);
  } else {
    count = std::min(count, (until - 1) % size_ + 1);
    from = until - count;
  }
  const uint64_t slot = from % size_;
  for (size_t i = 0; i < apart_.size(); ++i) {
    const RowColumn& column = columns_[apart_[i]];
    std::memcpy(to[i].data(), column.at(slot), count * column.row_bytes);
  }
  (newer ? copied.end : copied.begin) = newer ? from + count : from;
  return {first_place_ + slot, count};
}

bool RowMirror::has_shown(const Copied& copied, bool let_go) {
  const std::lock_guard lock(shown_mutex_);
  const uint64_t oldest = std::exchange(shown_oldest_, let_go ? UINT64_MAX : shown_oldest_);
  return oldest == UINT64_MAX || (copied.base == shown_base_ && copied.begin <= oldest &&
                                  copied.end <= oldest + size_ && copied.end >= gathered_head_);
}

// Makes slots of the rows' ages.
uint32_t RowMirror::keep_held(DrawnBatch& drawn) {
  const size_t n = drawn.keys.size(), rows = reach_.rows();
  const uint64_t head = number_of(drawn.header.head), here = head_;
  const uint64_t oldest = std::max<uint64_t>(begin_, here > size_ ? here - size_ : 0);
  // The greatest age of a row that is here; all the younger ones have been waited for.
  const uint64_t most = head > oldest ? head - oldest : 0;
  const auto slot_of_head = static_cast<uint32_t>(head % size_);
  size_t kept = 0;
  uint64_t oldest_kept = head;
  for (size_t i = 0; i < n; ++i) {
    uint32_t age = 0;
    for (size_t r = 0; r < rows; ++r) age = std::max(age, drawn.slots[r * n + i]);
    if (age > most) continue;
    oldest_kept = std::min(oldest_kept, head - age);
    drawn.keys[kept] = drawn.keys[i];
    drawn.probabilities[kept] = drawn.probabilities[i];
    drawn.lengths[kept] = drawn.lengths[i];
    for (size_t r = 0; r < rows; ++r) drawn.slots[r * n + kept] = drawn.slots[r * n + i];
    ++kept;
  }
  drawn.keys.resize(kept);
  drawn.probabilities.resize(kept);
  drawn.lengths.resize(kept);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < kept; ++i) {
      const uint32_t age = drawn.slots[r * n + i];
      drawn.slots[r * kept + i] = slot_of_head - age + (age > slot_of_head ? size_ : 0);
    }
  }
  drawn.slots.resize(rows * kept);
  if (kept > 0 && !apart_.empty()) note_shown(oldest_kept);
  drawn.header.batch = static_cast<uint32_t>(kept);
  return static_cast<uint32_t>(kept);
}

void RowMirror::write(const DrawnBatch& drawn, const Places& places) const {
  const auto put = [&](uint64_t offset, std::span<std::byte> out, RowSink sink) {
    write_batch(batch_layout_, drawn, offset, out, sink,
                [&](const Window& window, uint64_t from, std::span<std::byte> to) {
                  write_traced(drawn, reach_, window, shown_[window.column], from, to, sink);
                  return true;
                });
  };
  std::array<std::byte, 64 * 1024> some;  // on its way to where a part of it lies twice
  for (const Places::Run& run : places.runs) {
    if (run.repeat.count == 0) {
      put(run.offset, run.memory, {.past_caches = places.reply_bytes >= kPastCachesBytes});
      continue;
    }
    const Destination to = run.destination();
    for (uint64_t at = 0; at < to.reply_bytes(); at += some.size()) {
      const auto part =
          std::span(some).first(std::min<uint64_t>(some.size(), to.reply_bytes() - at));
      put(run.offset + at, part, {});  // read at once: through the caches
      to.write(at, part);
    }
  }
  streaming_fence();
}

}  // namespace drlnet
