#include "transport/faulty.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/world.h"

namespace drlnet {
namespace {

constexpr size_t kBurstFrames = 64;

}  // namespace

void FaultyLine::offer(const Endpoint& peer, std::span<const std::byte> data) {
  // All are drawn for every frame, so that one probability does not shift another's schedule.
  const bool drop = random_.uniform() < plan_.drop;
  const bool duplicate = random_.uniform() < plan_.duplicate;
  const bool reorder = random_.uniform() < plan_.reorder;
  const bool alter = plan_.alter > 0 && random_.uniform() < plan_.alter;
  if (drop) {
    ++counts_.dropped;
    return;
  }
  Held frame{peer, {data.begin(), data.end()}, plan_.delay_ns == 0 ? 0 : now_ns() + plan_.delay_ns};
  if (alter) this->alter(frame.data);
  if (duplicate) {
    ++counts_.duplicated;
    line_.push_back(frame);
  }
  if (reorder) {
    ++counts_.reordered;
    overtaken_.push_back(frame);
    return;
  }
  line_.push_back(frame);
  std::ranges::move(overtaken_, std::back_inserter(line_));
  overtaken_.clear();
  overtaken_before_poll_ = 0;
}

void FaultyLine::alter(std::vector<std::byte>& data) {
  ++counts_.altered;
  if (random_.below(4) == 0) {  // in whole words, as all lengths are
    data.resize((1 + random_.below(data.size() / 8 - 1)) * 8);  // a datagram is never empty
    return;
  }
  const uint64_t bit = random_.below(8 * data.size());
  data[bit / 8] ^= std::byte{1} << bit % 8;
}

void FaultyLine::poll() {
  for (; overtaken_before_poll_ > 0; --overtaken_before_poll_) {
    line_.push_back(std::move(overtaken_.front()));
    overtaken_.pop_front();
  }
  overtaken_before_poll_ = overtaken_.size();
}

const FaultyLine::Held* FaultyLine::front() const {
  if (line_.empty()) return nullptr;
  const Held& first = line_.front();
  return first.release_ns == 0 || first.release_ns <= now_ns() ? &first : nullptr;
}

FaultyLine::Held FaultyLine::pop() {
  ++counts_.passed;
  Held first = std::move(line_.front());
  line_.pop_front();
  return first;
}

uint64_t FaultyLine::next_release_ns() const {
  if (!overtaken_.empty()) return 0;
  return line_.empty() ? UINT64_MAX : line_.front().release_ns;
}

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& outgoing,
                                 const FaultPlan& incoming)
    : ForwardingTransport(std::move(inner)),
      outgoing_(outgoing),
      incoming_(incoming),
      arena_(std::make_unique_for_overwrite<std::byte[]>(kBurstFrames * kMaxFrameBytes)),
      tx_frames_(kBurstFrames) {
  for (size_t i = 0; i < kBurstFrames; ++i) tx_frames_[i].data = arena_.get() + i * kMaxFrameBytes;
}

std::span<TxFrame> FaultyTransport::reserve(size_t count) {
  return std::span(tx_frames_).first(std::min(count, kBurstFrames));
}

size_t FaultyTransport::send_burst(std::span<const TxFrame> frames) {
  for (const TxFrame& frame : frames) {
    frame.loans.copy_out();
    outgoing_.offer(frame.to, {frame.data, frame.length});
  }
  flush();
  return frames.size();
}

void FaultyTransport::flush() {
  while (const FaultyLine::Held* held = outgoing_.front()) {
    const std::span<TxFrame> frame = inner().reserve(1);
    DRLNET_ASSERT(frame.size() == 1);
    frame[0].to = held->peer;
    frame[0].length = static_cast<uint32_t>(held->data.size());
    std::ranges::copy(held->data, frame[0].data);
    if (inner().send_burst(frame) == 0) return;
    outgoing_.pop();
  }
}

std::span<const RxFrame> FaultyTransport::recv_burst() {
  outgoing_.poll();
  flush();
  for (const RxFrame& frame : inner().recv_burst()) incoming_.offer(frame.from, frame.data);
  incoming_.poll();
  lent_.clear();
  rx_frames_.clear();
  while (incoming_.front()) {
    // Moving a Held later does not move the bytes that it owns.
    const FaultyLine::Held& held = lent_.emplace_back(incoming_.pop());
    rx_frames_.push_back({held.peer, held.data});
  }
  return rx_frames_;
}

WaitPoint FaultyTransport::arm() {
  const uint64_t next_ns = std::min(outgoing_.next_release_ns(), incoming_.next_release_ns());
  return next_ns == UINT64_MAX ? inner().arm() : WaitPoint{-1, next_ns};
}

}  // namespace drlnet
