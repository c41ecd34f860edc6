#include "measure/udp_transfer.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/world.h"
#include "measure/handover.h"
#include "transport/transport.h"
#include "transport/udp_socket.h"

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
  uint64_t transfer, allowed;
};

std::byte pattern(size_t place) { return static_cast<std::byte>(place % 251); }

Error failed(const std::string& how) {
  return {Status::transport, "a bare UDP transfer " + how,
          "loopback must have its usual MTU of 65,536 bytes: ip link show lo"};
}

void wait_for_frames(Poll poll, int fd) {
  if (poll == Poll::busy) return spin_pause();
  pollfd waiting{fd, POLLIN, 0};
  ::poll(&waiting, 1, kSleepMs);
}

class Sender {
 public:
  Sender(Poll poll, size_t bytes)
      : poll_(poll), socket_(udp::Socket::bound(udp::resolve(kLoopback), kLoopback, {})) {
    for (size_t i = 0; i < bytes; ++i) bytes_.push_back(pattern(i));
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(socket_.local().port()); }

  void serve(const std::stop_token& stop) {
    uint64_t transfer = 0, sent = 0;
    while (!stop.stop_requested()) {
      Ask ask{};
      socklen_t length = sizeof to_.storage;
      if (recvfrom(socket_.fd(), &ask, sizeof ask, MSG_DONTWAIT, to_.get(), &length) !=
          sizeof ask) {
        wait_for_frames(poll_, socket_.fd());
        continue;
      }
      if (ask.transfer != transfer) sent = 0;
      transfer = ask.transfer;
      while (sent < ask.allowed) sent += send(sent, ask.allowed);
    }
  }

 private:
  size_t send(uint64_t from, uint64_t until) {
    const size_t length = std::min<uint64_t>(kMessageBytes, until - from);
    const ssize_t sent =
        sendto(socket_.fd(), bytes_.data() + from, length, MSG_DONTWAIT, to_.get(), to_.length());
    if (sent > 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN || errno == ENOBUFS) {
      pollfd room{socket_.fd(), POLLOUT, 0};
      ::poll(&room, 1, kSleepMs);
    } else if (errno != EINTR) {
      throw failed(std::string("fails: ") + std::strerror(errno));
    }
    return 0;
  }

  Poll poll_;
  udp::Socket socket_;
  std::vector<std::byte> bytes_;
  udp::SocketAddress to_{};
};

class Receiver {
 public:
  Receiver(Poll poll, const std::string& sender, size_t bytes)
      : poll_(poll),
        socket_(udp::Socket::connected(udp::resolve(sender), sender, {})),
        size_(bytes),
        bytes_(bytes + kRoomBytes) {}

  // Messages come in order and none is lost, or the sum of their lengths shows it.
  void transfer() {
    // The kernel counts its bookkeeping, too (as UdpTransport::receive_capacity_bytes).
    const uint64_t window = std::max(socket_.receive_buffer_bytes() / 3, 2 * kMessageBytes);
    ++transfer_;
    uint64_t allowed = std::min(window, size_);
    ask(allowed);
    uint64_t heard = now_ns();
    for (uint64_t got = 0; got < size_;) {
      const ssize_t more = recv(socket_.fd(), bytes_.data() + got, kRoomBytes, MSG_DONTWAIT);
      if (more > 0) {
        got += static_cast<uint64_t>(more);
        heard = 0;
        if (allowed < size_ && allowed - got < window / 2) {
          allowed = std::min(got + window, size_);
          ask(allowed);
        }
        continue;
      }
      const uint64_t now = now_ns();
      if (heard == 0) heard = now;
      if (now - heard > kSilenceNs) throw failed("stands still at byte " + std::to_string(got));
      wait_for_frames(poll_, socket_.fd());
    }
  }

  bool came_whole() const {
    for (size_t i = 0; i < size_; ++i) {
      if (bytes_[i] != pattern(i)) return false;
    }
    return true;
  }

 private:
  void ask(uint64_t allowed) {
    const Ask ask{transfer_, allowed};
    while (::send(socket_.fd(), &ask, sizeof ask, 0) < 0 && errno == EAGAIN) spin_pause();
  }

  Poll poll_;
  udp::Socket socket_;
  uint64_t size_;
  std::vector<std::byte> bytes_;
  uint64_t transfer_ = 0;
};

}  // namespace

size_t udp_transfers(std::optional<unsigned> core, Poll poll, uint64_t bytes, const Loop& loop) {
  Sender sender(poll, bytes);
  Receiver receiver(poll, sender.address(), bytes);
  std::exception_ptr failure;
  size_t count = 0;
  {
    std::jthread sending([&](const std::stop_token& stop) {
      if (core) stay_on(pthread_self(), *core);
      try {
        sender.serve(stop);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    count = run(loop, [&] { receiver.transfer(); });
  }
  if (failure) std::rethrow_exception(failure);
  if (count > 0 && !receiver.came_whole()) throw failed("brings other bytes than were sent");
  return count;
}

}  // namespace drlnet::measure
