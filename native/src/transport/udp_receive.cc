#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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
      frames_(std::make_unique<RxFrame[]>(kMaxFrames)),
      local_(local) {
  for (size_t i = 0; i < kMessages; ++i) {
    parts_[i] = {arena_.get() + i * kMessageBytes, kMessageBytes};
  }
}

void ReceiveQueue::prepare(size_t index) {
  msghdr& header = messages_[index].msg_hdr;
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

std::span<const RxFrame> ReceiveQueue::receive(int fd) {
  count_ = 0;
  for (size_t i = 0; i < used_; ++i) prepare(i);
  used_ = 0;
  int received;
  do {
    received = recvmmsg(fd, messages_.data(), kMessages, MSG_DONTWAIT, nullptr);
    if (received < 0 && errno == ECONNREFUSED) ++counters_.refused;
  } while (received < 0 && (errno == EINTR || errno == ECONNREFUSED));
  if (received < 0) {
    // A connected socket also reports other fates of what it sent (no route, no host).
    if (errno != EAGAIN) ++counters_.send_failed;
    return {};
  }
  used_ = static_cast<size_t>(received);
  for (size_t i = 0; i < used_; ++i) {
    const auto* data = static_cast<const std::byte*>(parts_[i].iov_base);
    if (local_ != nullptr) local_->read(messages_[i].msg_hdr, names_[i]);
    split(names_[i], {data, messages_[i].msg_len}, segment_bytes(messages_[i]));
  }
  return {frames_.get(), count_};
}

}  // namespace drlnet::udp
