#include "measure/frame_transfer.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/world.h"
#include "session/client/connection.h"
#include "session/flow.h"
#include "wire/frame.h"

namespace drlnet::measure {
namespace {

constexpr size_t kMostBytes = 64 << 20;
constexpr size_t kStrideBytes = 19 << 20;
constexpr uint64_t kRepeatNs = 20'000'000, kGiveUpNs = 1'000'000'000;

// In front of every frame, as long as a session's header.
struct Range {
  uint64_t transfer, offset, length, frame_bytes;
  std::byte rest[kHeaderBytes - 32];
};
static_assert(sizeof(Range) == kHeaderBytes);

// Until something may have come, or `until`.
void wait(Transport& transport, Poll poll, uint64_t until) {
  if (poll == Poll::busy || now_ns() >= until) return spin_pause();
  const WaitPoint point = transport.arm();
  if (point.fd < 0) until = std::min(until, point.look_again_ns);
  pollfd fd{point.fd, POLLIN, 0};
  sleep_on({&fd, 1}, until);
}

void send_all(Transport& transport, std::span<const TxFrame> frames) {
  const uint64_t until = now_ns() + kGiveUpNs;
  while (!frames.empty() && now_ns() < until) {
    frames = frames.subspan(transport.send_burst(frames));
  }
}

}  // namespace

FrameSender::FrameSender(const std::string& address, Poll poll)
    : transport_(listen(address)), poll_(poll), memory_(2 * kMostBytes, std::byte{1}) {}

size_t FrameSender::serve(uint64_t for_ns) {
  const uint64_t until = now_ns() + for_ns;
  size_t count = 0;
  while (now_ns() < until) {
    const auto frames = transport_->recv_burst();
    for (const RxFrame& frame : frames) {
      answer(frame);
      ++count;
    }
    if (frames.empty()) wait(*transport_, poll_, until);
  }
  return count;
}

void FrameSender::answer(const RxFrame& request) {
  Range range;
  if (request.data.size() != sizeof range) return;
  std::memcpy(&range, request.data.data(), sizeof range);
  if (range.offset > kMostBytes || range.length > kMostBytes - range.offset) return;
  if (range.frame_bytes <= kHeaderBytes) return;
  if (range.frame_bytes > transport_->mtu(request.from)) return;
  const size_t room = range.frame_bytes - kHeaderBytes;
  // Each transfer from another place, as a batch from a table: caches do not hold it.
  const std::byte* from = memory_.data() + range.transfer * kStrideBytes % kMostBytes;
  const Endpoint to = request.from;
  for (size_t left = range.length; left > 0;) {
    const auto frames = transport_->reserve(std::min<size_t>((left + room - 1) / room, 64));
    size_t count = 0;
    for (; count < frames.size() && left > 0; ++count) {
      const size_t length = std::min(room, left);
      Range part = range;
      part.length = length;
      std::memcpy(frames[count].data, &part, sizeof part);
      std::memcpy(frames[count].data + kHeaderBytes, from + range.offset, length);
      frames[count].to = to;
      frames[count].length = static_cast<uint32_t>(kHeaderBytes + length);
      frames[count].apart = false;
      range.offset += length;
      left -= length;
    }
    send_all(*transport_, frames.first(count));
  }
}

FrameReceiver::FrameReceiver(const std::string& address, Poll poll)
    : connected_(connect(address)),
      poll_(poll),
      memory_(kMostBytes),
      frame_bytes_(longest_frame_to(*connected_.transport, connected_.server)) {}

size_t FrameReceiver::transfers(size_t bytes, const Loop& loop) {
  if (bytes > kMostBytes) {
    throw Error(Status::config, "a transfer of " + std::to_string(bytes) + " bytes",
                "transfer " + std::to_string(kMostBytes) + " at most");
  }
  return run(loop, [&] { transfer(bytes); });
}

void FrameReceiver::ask(size_t offset, size_t length) {
  const auto frames = connected_.transport->reserve(1);
  const Range range{number_, offset, length, frame_bytes_, {}};
  std::memcpy(frames[0].data, &range, sizeof range);
  frames[0].to = connected_.server;
  frames[0].length = sizeof range;
  frames[0].apart = true;
  send_all(*connected_.transport, frames.first(1));
}

// Takes what has come; how many bytes of this transfer.
size_t FrameReceiver::take() {
  size_t got = 0;
  for (const RxFrame& frame : connected_.transport->recv_burst()) {
    Range range;
    if (frame.data.size() < sizeof range) continue;
    std::memcpy(&range, frame.data.data(), sizeof range);
    if (range.transfer != number_) continue;
    std::memcpy(memory_.data() + range.offset, frame.data.data() + kHeaderBytes, range.length);
    got += range.length;
  }
  return got;
}

// Nothing is lost while the window fits the receiver's buffer. Where something is all the same, it
// all goes again: that costs more than a session's repair, and is part of the time.
void FrameReceiver::transfer(size_t bytes) {
  const size_t room = frame_bytes_ - kHeaderBytes;
  const size_t most = connected_.transport->receive_capacity_bytes() / 2;
  const size_t pull = std::max(pull_bytes(static_cast<uint32_t>(most)) / room, size_t{1}) * room;
  const size_t window = std::max(most, pull);
  // Longer each time: a sender that is kept off its core would never be waited for.
  for (uint64_t silence = kRepeatNs; silence < kGiveUpNs; silence *= 2) {
    ++number_;
    size_t asked = 0, got = 0;
    uint64_t heard = now_ns();
    while (got < bytes) {
      while (asked < bytes && asked + pull <= got + window) {
        const size_t length = std::min(pull, bytes - asked);
        ask(asked, length);
        asked += length;
      }
      const size_t more = take();
      got += more;
      const uint64_t now = now_ns();
      if (more > 0) heard = now;
      if (now >= heard + silence) break;
      if (more == 0) wait(*connected_.transport, poll_, heard + silence);
    }
    if (got >= bytes) return;
  }
  throw Error(Status::timeout, "a bare transfer of " + std::to_string(bytes) + " bytes stalls",
              "look at what else the machine does");
}

}  // namespace drlnet::measure
