// A UDP socket that sees what the sender's kernel has joined, as a reader of the link below the
// kernel would: each datagram as it came, counted, then split, and none that its link is too narrow
// for. IPv4, unprivileged.
#pragma once

#include <doctest/doctest.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "transport/transport.h"
#include "transport/udp_address.h"

namespace drlnet::test {

class WatchingTransport final : public Transport {
 public:
  explicit WatchingTransport(bool takes_joined_frames, size_t mtu = kJumboFrameBytes,
                             size_t receive_capacity_bytes = 200 << 10)
      : takes_joined_frames_(takes_joined_frames),
        mtu_(mtu),
        receive_capacity_bytes_(receive_capacity_bytes),
        fd_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const udp::SocketAddress any = udp::resolve("127.0.0.1:0")[0];
    const int on = 1, buffer_bytes = 4 << 20;
    REQUIRE(bind(fd_, any.get(), any.length()) == 0);
    REQUIRE(setsockopt(fd_, SOL_UDP, UDP_GRO, &on, sizeof on) == 0);
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    for (TxFrame& frame : tx_frames_) frame.data = &tx_[kMaxFrameBytes * (&frame - &tx_frames_[0])];
  }
  ~WatchingTransport() override { close(fd_); }

  std::span<TxFrame> reserve(size_t count) override {
    return std::span(tx_frames_).first(std::min(count, tx_frames_.size()));
  }
  size_t send_burst(std::span<const TxFrame> frames) override {
    for (const TxFrame& frame : frames) {
      const udp::SocketAddress to = udp::from_endpoint(frame.to);
      frame.loans.copy_out();
      if (sendto(fd_, frame.data, frame.length, 0, to.get(), to.length()) < 0) ++failed_;
    }
    return frames.size();
  }
  std::span<const RxFrame> recv_burst() override {
    rx_frames_.clear();
    for (size_t i = 0; i < kMessages && receive(&rx_[i * kMessageBytes]); ++i) {
    }
    return rx_frames_;
  }

  WaitPoint arm() override { return {fd_, 0}; }
  size_t mtu(const Endpoint&) override { return mtu_; }
  bool reliable() const override { return false; }
  bool takes_joined_frames() const override { return takes_joined_frames_; }
  size_t receive_capacity_bytes() const override { return receive_capacity_bytes_; }
  std::string local_address() const override {
    udp::SocketAddress address;
    socklen_t length = sizeof address.storage;
    getsockname(fd_, address.get(), &length);
    return "udp://" + address.text();
  }
  std::string describe(const Endpoint& endpoint) const override {
    return "udp://" + udp::from_endpoint(endpoint).text();
  }
  std::string_view kind() const override { return "udp"; }
  TransportCounters counters() const override { return {.send_failed = failed_}; }

  uint64_t joined() const { return joined_; }  // messages of several frames
  uint64_t single() const { return single_; }  // messages of one

 private:
  static constexpr size_t kMessages = 32, kMessageBytes = 65536;

  bool receive(std::byte* into) {
    iovec part{into, kMessageBytes};
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))];
    Endpoint from;
    msghdr header{};
    header.msg_name = from.bytes.data();
    header.msg_namelen = sizeof from;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t length = recvmsg(fd_, &header, 0);
    if (length <= 0) return false;
    size_t frame_bytes = static_cast<size_t>(length);
    for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry; entry = CMSG_NXTHDR(&header, entry)) {
      if (entry->cmsg_level != SOL_UDP || entry->cmsg_type != UDP_GRO) continue;
      int segment = 0;
      std::memcpy(&segment, CMSG_DATA(entry), sizeof segment);
      if (segment > 0) frame_bytes = static_cast<size_t>(segment);
    }
    const size_t total = static_cast<size_t>(length);
    if (frame_bytes > mtu_) return true;  // the link would have lost it
    ++(frame_bytes < total ? joined_ : single_);
    for (size_t at = 0; at < total; at += frame_bytes) {
      rx_frames_.push_back({from, {into + at, std::min(frame_bytes, total - at)}});
    }
    return true;
  }

  bool takes_joined_frames_;
  size_t mtu_, receive_capacity_bytes_;
  int fd_;
  std::unique_ptr<std::byte[]> tx_ = std::make_unique<std::byte[]>(64 * kMaxFrameBytes);
  std::unique_ptr<std::byte[]> rx_ = std::make_unique<std::byte[]>(kMessages * kMessageBytes);
  std::array<TxFrame, 64> tx_frames_{};
  std::vector<RxFrame> rx_frames_;
  uint64_t joined_ = 0, single_ = 0, failed_ = 0;
};

}  // namespace drlnet::test
