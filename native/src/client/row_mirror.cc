#include "client/row_mirror.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
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

}  // namespace

uint64_t RowMirror::memory_bytes(const TableSpec& part) {
  return ring_slots(part) * part.row_bytes();
}

RowMirror::RowMirror(const TableSpec& part)
    : reach_(part.item),
      batch_layout_(part),
      row_layout_(part),
      size_(static_cast<uint32_t>(ring_slots(part))),
      memory_(memory_bytes(part) + SampleLayout::align64(1) * part.columns.size()) {
  uint64_t offset = 0;
  for (size_t c = 0; c < row_layout_.columns(); ++c) {
    const uint64_t bytes = row_layout_.row_bytes(c);
    columns_.push_back({memory_.data() + offset, bytes, bytes});
    offset = SampleLayout::align64(offset + size_ * bytes);
  }
}

void RowMirror::store(std::span<const std::byte> reply) {
  FollowHeader run;
  if (reply.size() < sizeof run) throw_malformed();
  std::memcpy(&run, reply.data(), sizeof run);
  const uint64_t first = number_of(run.first);
  if (run.count > size_ || reply.size() != row_layout_.total_bytes(run.count) ||
      number_of(run.head) < first + run.count) {
    throw_malformed();
  }
  const bool follows = next_key_ != 0 && run.first - first == next_key_ - head_;
  const uint64_t known =
      follows && first < head_ ? std::min<uint64_t>(head_ - first, run.count) : 0;
  {
    const std::unique_lock lock(rows_mutex_);
    if (!follows || first > head_) begin_ = first;
    for (size_t c = 0; c < columns_.size() && known < run.count; ++c) {
      const RowColumn& column = columns_[c];
      const std::byte* from = reply.data() + row_layout_.column(run.count, c);
      for (uint64_t row = known; row < run.count;) {
        const uint64_t slot = (first + row) % size_;
        const uint64_t rows = std::min<uint64_t>(run.count - row, size_ - slot);
        std::memcpy(column.at(slot), from + row * column.row_bytes, rows * column.row_bytes);
        row += rows;
      }
    }
    const std::lock_guard news(news_mutex_);
    head_ = follows ? std::max<uint64_t>(head_, first + run.count) : first + run.count;
  }
  news_.notify_all();
  next_key_ = run.first - first + head_;
  stored_ += run.count - known;
  behind_ = run.head - std::min(run.head, next_key_);
}

void RowMirror::fail(std::exception_ptr failure) {
  const std::lock_guard lock(news_mutex_);
  failure_ = std::move(failure);
  news_.notify_all();
}

void RowMirror::wait_for(uint64_t number, Deadline deadline,
                         const std::function<void()>& interrupt) {
  if (head_ >= number) return;
  const uint64_t began = waking_ns();
  std::unique_lock lock(news_mutex_);
  while (head_ < number) {
    if (failure_) std::rethrow_exception(failure_);
    const uint64_t now = waking_ns();
    if (now >= deadline) {
      std::array<char, 32> seconds;
      std::snprintf(seconds.data(), seconds.size(), "%.3g s",
                    static_cast<double>(now - std::min(now, began)) / 1e9);
      throw Error(Status::timeout,
                  std::string("waited ") + seconds.data() + " for the mirror: " +
                      std::to_string(number - head_) + " rows of a drawn batch are on their way",
                  "allow more time, or use a faster link: rows travel in the order in which they "
                  "were stored");
    }
    news_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline - now, kLookNs)));
    if (!interrupt) continue;
    lock.unlock();
    interrupt();
    lock.lock();
  }
}

uint32_t RowMirror::gather(DrawnBatch& drawn, FunctionRef<const Places&(uint32_t)> places_of) {
  const std::shared_lock lock(rows_mutex_);
  const uint32_t left = keep_held(drawn);
  if (left > 0) write(drawn, places_of(left));
  return left;
}

// Makes slots of the rows' ages.
uint32_t RowMirror::keep_held(DrawnBatch& drawn) const {
  const size_t n = drawn.keys.size(), rows = reach_.rows();
  const uint64_t head = number_of(drawn.header.head), here = head_;
  const uint64_t oldest = std::max(begin_, here > size_ ? here - size_ : 0);
  // The greatest age of a row that is here; all the younger ones have been waited for.
  const uint64_t most = head > oldest ? head - oldest : 0;
  const auto slot_of_head = static_cast<uint32_t>(head % size_);
  size_t kept = 0;
  for (size_t i = 0; i < n; ++i) {
    uint32_t age = 0;
    for (size_t r = 0; r < rows; ++r) age = std::max(age, drawn.slots[r * n + i]);
    if (age > most) continue;
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
  drawn.header.batch = static_cast<uint32_t>(kept);
  return static_cast<uint32_t>(kept);
}

void RowMirror::write(const DrawnBatch& drawn, const Places& places) const {
  const RowSink sink{.past_caches = places.reply_bytes >= kPastCachesBytes};
  const auto put = [&](uint64_t offset, std::span<std::byte> out) {
    write_batch(batch_layout_, drawn, offset, out, sink,
                [&](const Window& window, uint64_t from, std::span<std::byte> to) {
                  write_traced(drawn, reach_, window, columns_[window.column], from, to, sink);
                  return true;
                });
  };
  std::array<std::byte, 64 * 1024> some;  // on its way to where a part of it lies twice
  for (const Places::Run& run : places.runs) {
    if (run.repeat.count == 0) {
      put(run.offset, run.memory);
      continue;
    }
    const Destination to = run.destination();
    for (uint64_t at = 0; at < to.reply_bytes(); at += some.size()) {
      const auto part =
          std::span(some).first(std::min<uint64_t>(some.size(), to.reply_bytes() - at));
      put(run.offset + at, part);
      to.write(at, part);
    }
  }
  streaming_fence();
}

}  // namespace drlnet
