#include "measure/udp_transfer.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/world.h"
#include "transport/transport.h"

namespace drlnet::measure {
namespace {

constexpr const char* kLoopback = "127.0.0.1:0";
// As long as the longest frame of a session: what loopback takes whole.
constexpr size_t kMessageBytes = kMaxFrameBytes;
constexpr size_t kRoomBytes = 65'536;  // what a receive may write, though nothing so long is sent
constexpr uint64_t kSilenceNs = 1'000'000'000;
constexpr int kSleepMs = 50;

// Asks for more of a transfer, of which the sender may have sent `allowed` bytes.
struct Ask {
  uint64_t transfer, bytes, allowed;
};

std::byte pattern(size_t place) { return static_cast<std::byte>(place % 251); }

std::string on_loopback(uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

void wait_for_frames(Poll poll, int fd) {
  if (poll == Poll::busy) return spin_pause();
  pollfd waiting{fd, POLLIN, 0};
  ::poll(&waiting, 1, kSleepMs);
}

}  // namespace

UdpSender::UdpSender(Poll poll)
    : poll_(poll),
      socket_(udp::Socket::bound(udp::resolve(kLoopback), kLoopback, {})),
      port_(socket_.local().port()) {}

uint64_t UdpSender::serve(uint64_t for_ns) {
  const uint64_t end = now_ns() + for_ns;
  uint64_t total = 0;
  while (now_ns() < end) {
    Ask ask{};
    socklen_t length = sizeof to_.storage;
    if (recvfrom(socket_.fd(), &ask, sizeof ask, MSG_DONTWAIT, to_.get(), &length) != sizeof ask) {
      wait_for_frames(poll_, socket_.fd());
      continue;
    }
    if (ask.transfer != transfer_) {
      transfer_ = ask.transfer;
      begin(ask.bytes);
    }
    const uint64_t before = sent_;
    send(std::min(ask.allowed, ask.bytes));
    total += sent_ - before;
  }
  return total;
}

void UdpSender::begin(uint64_t bytes) {
  sent_ = 0;
  size_t next = bytes_.size();
  bytes_.resize(std::max<uint64_t>(next, bytes));
  for (; next < bytes; ++next) bytes_[next] = pattern(next);
}

void UdpSender::send(uint64_t allowed) {
  while (sent_ < allowed) {
    const size_t length = std::min<uint64_t>(kMessageBytes, allowed - sent_);
    const ssize_t sent =
        sendto(socket_.fd(), bytes_.data() + sent_, length, MSG_DONTWAIT, to_.get(), to_.length());
    if (sent > 0) {
      sent_ += static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      pollfd room{socket_.fd(), POLLOUT, 0};
      ::poll(&room, 1, kSleepMs);
    } else if (errno != EINTR) {
      throw Error(Status::transport, std::string("a bare UDP transfer: ") + std::strerror(errno),
                  "loopback must have its usual MTU of 65,536 bytes: ip link show lo");
    }
  }
}

UdpReceiver::UdpReceiver(uint16_t port, Poll poll)
    : poll_(poll),
      socket_(udp::Socket::connected(udp::resolve(on_loopback(port)), on_loopback(port), {})) {}

size_t UdpReceiver::transfers(uint64_t bytes, const Loop& loop) {
  bytes_.resize(bytes + kRoomBytes);
  return run(loop, [&] { transfer(bytes); });
}

void UdpReceiver::ask(uint64_t bytes, uint64_t allowed) {
  const Ask ask{transfer_, bytes, allowed};
  while (::send(socket_.fd(), &ask, sizeof ask, 0) < 0 && errno == EAGAIN) spin_pause();
}

// Messages come in order and none is lost, or the sum of their lengths shows it.
void UdpReceiver::transfer(uint64_t bytes) {
  // The kernel counts its bookkeeping, too (as UdpTransport::receive_capacity_bytes).
  const uint64_t window = std::max(socket_.receive_buffer_bytes() / 3, 2 * kMessageBytes);
  ++transfer_;
  uint64_t allowed = std::min(window, bytes);
  ask(bytes, allowed);
  uint64_t heard = now_ns();
  for (uint64_t got = 0; got < bytes;) {
    if (const size_t more = receive(bytes_.data() + got); more > 0) {
      got += more;
      heard = 0;
      if (allowed < bytes && allowed - got < window / 2) {
        allowed = std::min(got + window, bytes);
        ask(bytes, allowed);
      }
      continue;
    }
    const uint64_t now = now_ns();
    if (heard == 0) heard = now;
    if (now - heard > kSilenceNs) {
      throw Error(Status::transport,
                  "a bare UDP transfer stood still at byte " + std::to_string(got) + " of " +
                      std::to_string(bytes),
                  "let its two processes run undisturbed");
    }
    wait_for_frames(poll_, socket_.fd());
  }
}

size_t UdpReceiver::receive(std::byte* to) {
  const ssize_t length = recv(socket_.fd(), to, kRoomBytes, MSG_DONTWAIT);
  return length > 0 ? static_cast<size_t>(length) : 0;
}

}  // namespace drlnet::measure
