// Kernel UDP over IPv4 and IPv6, in bursts: sendmmsg and recvmmsg, with segmentation offload (GSO)
// and receive offload (GRO) where the kernel has them. Addresses: "HOST[:PORT]", "[V6][:PORT]",
// and behind it perhaps ",buffer=BYTES".
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/transport.h"
#include "transport/udp_local.h"
#include "transport/udp_socket.h"

namespace drlnet::udp {

std::unique_ptr<Transport> listen(const std::string& rest, uint32_t shards);
Connected connect(const std::string& rest);
bool is_loopback(const std::string& rest);
// On the next ports.
std::string shard(const std::string& rest, uint32_t shard);
std::string at(const std::string& rest, const std::string& host, uint16_t port);

// Fills messages with runs of frames. Owns the frames that are reserved. No allocation per burst.
class SendQueue {
 public:
  // A connected socket sends to its peer, whatever frames' `to` says. local: of a socket bound to
  // all addresses, else null; it outlives us.
  SendQueue(bool segmentation, bool connected, const LocalAddresses* local);
  std::span<TxFrame> reserve(size_t count);
  size_t send(int fd, std::span<const TxFrame> frames);
  const TransportCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kFrames = 64;
  static constexpr size_t kFrameParts =
      2 * Loans::kMost + 1;  // its own bytes, and what it was lent
  struct alignas(cmsghdr) Control {
    std::byte bytes[CMSG_SPACE(sizeof(uint16_t)) + LocalAddresses::kControlBytes];
  };

  size_t fill_messages(std::span<const TxFrame> frames, size_t begin, size_t single_until);

  std::unique_ptr<std::byte[]> arena_;
  std::array<TxFrame, kFrames> frames_;
  std::array<mmsghdr, kFrames> messages_{};
  std::array<size_t, kFrames> frames_of_{};  // each message
  std::unique_ptr<iovec[]> parts_;
  std::array<Control, kFrames> controls_{};
  bool segmentation_, connected_;
  const LocalAddresses* local_;
  TransportCounters counters_;
};

// Splits received messages into frames, which stay until the next receive. No allocation per burst.
class ReceiveQueue {
 public:
  explicit ReceiveQueue(LocalAddresses* local);  // as SendQueue's
  std::span<const RxFrame> receive(int fd);
  // One message, of which the expected frames lie where they are expected.
  std::span<const RxFrame> receive_placed(int fd, const Expected& expected);
  // Each message takes a call of its own then, which the long ones alone are worth.
  size_t placed_most_bytes() const { return long_bytes_ < kLongBytes ? 0 : kMessageBytes; }
  const TransportCounters& counters() const { return counters_; }
  bool heard() const { return long_bytes_ != 0; }  // something has come

 private:
  // A message is as long as UDP allows, since GRO may have filled it.
  static constexpr size_t kMessages = 64, kMessageBytes = 65536;
  // 128: the most segments that a kernel puts into one message.
  static constexpr size_t kMaxFrames = kMessages * 128;
  static constexpr size_t kLongBytes = 32768;
  static constexpr size_t kPlacedParts = 256;  // what was not expected, too
  static_assert(kPlacedParts <= IOV_MAX);
  struct alignas(cmsghdr) Control {
    std::byte bytes[CMSG_SPACE(sizeof(int)) + LocalAddresses::kControlBytes];
  };

  std::byte* room(size_t message) const { return arena_.get() + message * kMessageBytes; }
  void prepare(msghdr& header, size_t index);
  size_t fill(int fd, std::span<mmsghdr> messages);
  size_t write_parts(const Expected& expected);
  void split(const Endpoint& from, std::span<const std::byte> data, size_t segment);

  std::unique_ptr<std::byte[]> arena_;
  std::unique_ptr<std::byte[]> frames_arena_;  // no page is touched before frames come
  RxFrame* frames_;                            // there
  size_t count_ = 0;
  size_t used_ = kMessages;  // messages whose headers the last receive has written over
  std::array<mmsghdr, kMessages> messages_{};
  std::array<iovec, kMessages> parts_{};
  std::array<Endpoint, kMessages> names_{};
  std::array<Control, kMessages> controls_{};
  size_t long_bytes_ = 0;  // of the longest message lately
  mmsghdr placed_{};
  std::array<iovec, kPlacedParts> placed_parts_{};
  LocalAddresses* local_;
  TransportCounters counters_;
};

class UdpTransport final : public Transport {
 public:
  static std::unique_ptr<UdpTransport> listen(const std::string& rest, const Options& options);
  static std::unique_ptr<UdpTransport> connect(const std::string& rest, const Options& options);
  // To one of the addresses that `rest` names.
  static std::unique_ptr<UdpTransport> connect(const std::vector<SocketAddress>& addresses,
                                               const std::string& rest, const Options& options);

  Endpoint peer() const { return to_endpoint(socket_.peer()); }  // of a connected one

  std::span<TxFrame> reserve(size_t count) override { return send_queue_.reserve(count); }
  size_t send_burst(std::span<const TxFrame> frames) override {
    return send_queue_.send(socket_.fd(), frames);
  }
  std::span<const RxFrame> recv_burst() override { return receive_queue_.receive(socket_.fd()); }
  std::span<const RxFrame> recv_placed(const Expected& expected) override {
    return receive_queue_.receive_placed(socket_.fd(), expected);
  }
  size_t placed_most_bytes() const override { return receive_queue_.placed_most_bytes(); }
  WaitPoint arm() override { return {socket_.fd(), 0}; }
  size_t mtu(const Endpoint&) override { return socket_.longest_frame(); }
  bool reliable() const override { return false; }
  size_t receive_capacity_bytes() const override;
  std::string local_address() const override { return "udp://" + socket_.local().text(); }
  std::string describe(const Endpoint& endpoint) const override {
    return "udp://" + from_endpoint(endpoint).text();
  }
  std::string_view kind() const override { return "udp"; }
  std::string trouble() const override;
  TransportCounters counters() const override;

 private:
  UdpTransport(Socket socket, bool connected);

  Socket socket_;
  std::unique_ptr<LocalAddresses> local_;  // null unless bound to all addresses
  SendQueue send_queue_;
  ReceiveQueue receive_queue_;
};

}  // namespace drlnet::udp
