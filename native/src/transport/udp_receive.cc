#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "transport/udp.h"

namespace drlnet::udp {
namespace {

// The length of the frames that the kernel has joined in a message, or the whole when it has not.
size_t segment_bytes(const mmsghdr& message) {
  auto* header = const_cast<msghdr*>(&message.msg_hdr);
  for (cmsghdr* control = CMSG_FIRSTHDR(header); control; control = CMSG_NXTHDR(header, control)) {
    if (control->cmsg_level != SOL_UDP || control->cmsg_type != UDP_GRO) continue;
    int segment = 0;
    std::memcpy(&segment, CMSG_DATA(control), sizeof segment);
    if (segment > 0) return static_cast<size_t>(segment);
  }
  return message.msg_len;
}

}  // namespace

ReceiveQueue::ReceiveQueue(LocalAddresses* local)
    : arena_(std::make_unique_for_overwrite<std::byte[]>(kMessages * kMessageBytes)),
      frames_arena_(std::make_unique_for_overwrite<std::byte[]>(kMaxFrames * sizeof(RxFrame))),
      frames_(reinterpret_cast<RxFrame*>(frames_arena_.get())),
      local_(local) {
  for (size_t i = 0; i < kMessages; ++i) parts_[i] = {room(i), kMessageBytes};
}

// With the room of message `index`.
void ReceiveQueue::prepare(msghdr& header, size_t index) {
  header.msg_name = names_[index].bytes.data();
  header.msg_namelen = sizeof(Endpoint);
  header.msg_iov = &parts_[index];
  header.msg_iovlen = 1;
  header.msg_control = &controls_[index];
  header.msg_controllen = sizeof(Control);
  header.msg_flags = 0;
}

void ReceiveQueue::split(const Endpoint& from, std::span<const std::byte> data, size_t segment) {
  for (size_t offset = 0; offset < data.size(); offset += segment) {
    const size_t length = std::min(segment, data.size() - offset);
    if (length > kMaxFrameBytes || count_ == kMaxFrames) {
      ++counters_.receive_dropped;
    } else {
      frames_[count_++] = {from, data.subspan(offset, length)};
    }
  }
}

// How many messages have come.
size_t ReceiveQueue::fill(int fd, std::span<mmsghdr> messages) {
  int received;
  do {
    received = recvmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()), MSG_DONTWAIT,
                        nullptr);
    if (received < 0 && errno == ECONNREFUSED) ++counters_.refused;
  } while (received < 0 && (errno == EINTR || errno == ECONNREFUSED));
  if (received < 0) {
    // A connected socket also reports other fates of what it sent (no route, no host).
    if (errno != EAGAIN) ++counters_.send_failed;
    return 0;
  }
  for (const mmsghdr& message : messages.first(static_cast<size_t>(received))) {
    long_bytes_ = std::max<size_t>(message.msg_len, long_bytes_ - long_bytes_ / 8);
  }
  return static_cast<size_t>(received);
}

std::span<const RxFrame> ReceiveQueue::receive(int fd) {
  count_ = 0;
  for (size_t i = 0; i < used_; ++i) prepare(messages_[i].msg_hdr, i);
  used_ = fill(fd, messages_);
  for (size_t i = 0; i < used_; ++i) {
    if (local_ != nullptr) local_->read(messages_[i].msg_hdr, names_[i]);
    split(names_[i], {room(i), messages_[i].msg_len}, segment_bytes(messages_[i]));
  }
  return {frames_, count_};
}

// Each frame's head in the second message's room, what follows it where it is expected, and
// behind them all the third message's room. Returns how many frames there are parts for.
size_t ReceiveQueue::write_parts(const Expected& expected) {
  size_t frames = 0, parts = 0;
  for (const Expected::Frame& frame : expected.frames) {
    if (parts + 1 + frame.parts.size() >= kPlacedParts) break;
    placed_parts_[parts++] = {room(1) + frames++ * expected.head_bytes, expected.head_bytes};
    for (const auto part : frame.parts) placed_parts_[parts++] = {part.data(), part.size()};
  }
  placed_parts_[parts++] = {room(2), kMessageBytes};
  prepare(placed_.msg_hdr, 0);
  placed_.msg_hdr.msg_iov = placed_parts_.data();
  placed_.msg_hdr.msg_iovlen = parts;
  return frames;
}

std::span<const RxFrame> ReceiveQueue::receive_placed(int fd, const Expected& expected) {
  DRLNET_ASSERT(expected.frames.size() * expected.head_bytes <= kMessageBytes);
  count_ = 0;
  const size_t frames = write_parts(expected);
  if (fill(fd, {&placed_, 1}) == 0) return {};
  if (local_ != nullptr) local_->read(placed_.msg_hdr, names_[0]);
  const size_t segment = segment_bytes(placed_);
  size_t left = placed_.msg_len;
  const iovec* part = placed_parts_.data();
  for (; left > 0 && count_ < frames; ++count_) {
    const Expected::Frame& frame = expected.frames[count_];
    const std::span head(static_cast<const std::byte*>(part->iov_base), expected.head_bytes);
    const size_t length = head.size() + frame.bytes;
    if (std::min(segment, left) != length || !expected.is(count_, head)) break;
    frames_[count_] = {names_[0], head, frame.bytes};
    left -= length;
    part += 1 + frame.parts.size();
  }
  if (left == 0) return {frames_, count_};
  // Something else: out of those parts, before it is told from where it should be.
  std::byte* rest = count_ == frames ? room(2) : room(0);
  if (count_ < frames) {
    for (size_t at = 0; at < left; at += part++->iov_len) {
      std::memcpy(rest + at, part->iov_base, std::min(part->iov_len, left - at));
    }
  }
  split(names_[0], {rest, left}, segment);
  return {frames_, count_};
}

}  // namespace drlnet::udp
