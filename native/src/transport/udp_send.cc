#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/assert.h"
#include "transport/udp.h"

namespace drlnet::udp {
namespace {

// In one message: an IPv4 datagram is below 65,507 bytes, whatever it is cut into.
constexpr size_t kMaxRunBytes = 65000, kMaxRun = 64;
// What is lent is not short.
static_assert(2 * (kMaxRunBytes / Loans::kMinBytes) + kMaxRun <= IOV_MAX);

// Frames that one message can carry: to one endpoint, of one length, the last perhaps shorter.
size_t run_length(std::span<const TxFrame> frames) {
  size_t bytes = frames[0].length, run = 1;
  for (; run < frames.size(); ++run) {
    const TxFrame &previous = frames[run - 1], &next = frames[run];
    bytes += next.length;
    if (previous.length != frames[0].length || next.length > previous.length ||
        bytes > kMaxRunBytes || previous.apart || next.apart || next.to != previous.to) {
      break;
    }
  }
  return run;
}

// Where the frame's bytes lie, in their order. Returns what follows the last part written.
iovec* write_parts(const TxFrame& frame, iovec* part) {
  std::byte* next = frame.data;
  for (const Loan& loan : frame.loans.all()) {
    if (loan.place > next) *part++ = {next, static_cast<size_t>(loan.place - next)};
    *part++ = {const_cast<std::byte*>(loan.from), loan.bytes};
    // On its way while other parts are written: the kernel's copy waits for memory line by line.
    for (size_t line = 0; line < loan.bytes; line += 64) __builtin_prefetch(loan.from + line, 0, 2);
    next = loan.place + loan.bytes;
  }
  std::byte* end = frame.data + frame.length;
  if (next < end) *part++ = {next, static_cast<size_t>(end - next)};
  return part;
}

}  // namespace

SendQueue::SendQueue(bool segmentation, bool connected, const LocalAddresses* local)
    : arena_(std::make_unique_for_overwrite<std::byte[]>(kFrames * kMaxFrameBytes)),
      parts_(std::make_unique_for_overwrite<iovec[]>(kFrames * kFrameParts)),
      segmentation_(segmentation),
      connected_(connected),
      local_(local) {
  static_assert(kFrames == kMaxRun);
  for (size_t i = 0; i < kFrames; ++i) frames_[i].data = arena_.get() + i * kMaxFrameBytes;
}

std::span<TxFrame> SendQueue::reserve(size_t count) {
  return std::span(frames_).first(std::min(count, kFrames));
}

// One message per run; up to frame `single_until` one per frame.
size_t SendQueue::fill_messages(std::span<const TxFrame> frames, size_t begin,
                                size_t single_until) {
  size_t count = 0;
  iovec* part = parts_.get();
  for (size_t done = begin; done < frames.size(); ++count) {
    const bool single = !segmentation_ || done < single_until;
    const size_t run = single ? 1 : run_length(frames.subspan(done));
    msghdr& header = messages_[count].msg_hdr;
    header = {};
    header.msg_iov = part;
    for (size_t i = done; i < done + run; ++i) {
      DRLNET_ASSERT(frames[i].length > 0 && frames[i].length <= kMaxFrameBytes);
      part = write_parts(frames[i], part);
    }
    header.msg_iovlen = static_cast<size_t>(part - header.msg_iov);
    frames_of_[count] = run;
    if (!connected_) {
      header.msg_name = const_cast<std::byte*>(frames[done].to.bytes.data());
      header.msg_namelen = from_endpoint(frames[done].to).length();
    }
    if (run > 1 || local_ != nullptr) header.msg_control = &controls_[count];
    if (run > 1) {
      const auto segment = static_cast<uint16_t>(frames[done].length);
      add_control(header, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
    }
    if (local_ != nullptr) local_->write(frames[done].to, header);
    done += run;
  }
  return count;
}

size_t SendQueue::send(int fd, std::span<const TxFrame> frames) {
  DRLNET_ASSERT(frames.size() <= kFrames);
  size_t done = 0, single_until = 0;
  bool offload_suspect = false;
  while (done < frames.size()) {
    const size_t count = fill_messages(frames, done, single_until);
    const int sent = sendmmsg(fd, messages_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
    if (sent > 0) {
      for (int i = 0; i < sent; ++i) done += frames_of_[static_cast<size_t>(i)];
      // Frames that were refused as one message and pass alone: it is the offload that is missing.
      if (offload_suspect) segmentation_ = false;
      offload_suspect = false;
      continue;
    }
    const int code = errno;
    const size_t run = frames_of_[0];
    if (code == EAGAIN || code == ENOBUFS || code == ENOMEM) break;  // no room: the rest is later
    if (code == EINTR) continue;
    if (code == ECONNREFUSED) {  // an earlier frame's fate, which this call only reports
      ++counters_.refused;
    } else if (run > 1) {
      single_until = done + run;
      offload_suspect = code == EINVAL || code == EIO;
    } else {
      ++(code == EMSGSIZE ? counters_.too_long : counters_.send_failed);
      ++done;
      offload_suspect = false;
    }
  }
  return done;
}

}  // namespace drlnet::udp
