// Carries frames between endpoints: datagrams that may be lost, doubled or reordered, and nothing
// more. Virtual calls are made once per burst, never per frame. Threading: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/loans.h"
#include "transport/expected.h"

namespace drlnet {

// The longest frame that any link carries: loopback's, a 65,536-byte MTU less IPv6 and UDP headers,
// in whole cache lines. All lengths are whole 8-byte words, so that the frames of a coalesced burst
// stay aligned.
constexpr size_t kMaxFrameBytes = 65'472;
// The longest over Ethernet, a 9,000-byte MTU less IPv4 and UDP headers; and of transports that
// keep a room for every frame that may be on its way.
constexpr size_t kJumboFrameBytes = 8968;
// What a frame takes of receive_capacity_bytes(), however short it is.
constexpr size_t kMinFrameCharge = 1024;
// Frame sizes that a client probes besides the largest that its own link takes: jumbo frames over
// IPv4 and IPv6, Ethernet's usual ones over both, and IPv6's minimum.
constexpr std::array<size_t, 5> kFrameSizes = {kJumboFrameBytes, 8952, 1472, 1448, 1232};

// Where a frame comes from or goes to; its bytes mean something only to the transport that made it.
struct Endpoint {
  std::array<std::byte, 32> bytes{};
  // Compared as memory: the array's own comparison goes byte by byte, and every frame is compared.
  bool operator==(const Endpoint& other) const {
    return std::memcmp(bytes.data(), other.bytes.data(), sizeof bytes) == 0;
  }
};

// What a small frame needs lies in one cache line.
struct alignas(64) TxFrame {
  Endpoint to;
  std::byte* data = nullptr;  // room for the mtu() of any endpoint
  uint32_t length = 0;
  bool apart = false;  // never joined with others into one message, even if the device could
  // Those bytes of the message that lie elsewhere than at `data`. They are read by the send_burst()
  // that takes the frame and not after it returns: until then the lender leaves them as they are.
  Loans loans;
};

struct RxFrame {
  Endpoint from;
  std::span<const std::byte> data;
  size_t placed_bytes = 0;  // that follow `data`, and lie where recv_placed() was told
};

// Starts fetching the first frame of a burst: another core wrote it, and reading the clock, which
// comes next, would let the processor do nothing else meanwhile.
inline void prefetch(std::span<const RxFrame> frames) {
  if (frames.empty()) return;
  __builtin_prefetch(frames[0].data.data());
  __builtin_prefetch(frames[0].data.data() + 64);
}

// What to wait for before the next recv_burst can bring something: a readable descriptor (poll or
// epoll it), or, where fd is -1, the time at which to look again. Good for one wait.
struct WaitPoint {
  int fd = -1;
  uint64_t look_again_ns = 0;
};

// Frames that did not get through, by reason, since the transport was made.
struct TransportCounters {
  uint64_t refused = 0;           // the other host said that nothing listens there
  uint64_t too_long = 0;          // sent, but longer than the link takes
  uint64_t send_failed = 0;       // no route, no permission, ...
  uint64_t receive_overflow = 0;  // messages (of one frame or more) that found our buffer full
  uint64_t receive_dropped = 0;   // arrived longer than kMaxFrameBytes
  uint64_t handed_over = 0;       // came to us, and went on to another transport of this process
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Empty frames to fill, at most `count`, possibly fewer (64 at least are there). They belong to
  // the transport.
  virtual std::span<TxFrame> reserve(size_t count) = 0;

  // Moves the `data` of a reserved frame to where its receiver will read them, if the transport
  // can: what is written there is copied no more. `to` and `length`, which may shrink, are set. The
  // receiver may write there, too: nothing is read back. The next call sends this frame alone.
  virtual void place(TxFrame& /*frame*/) {}

  // Sends the frames (a subspan, in order, of those last reserved, with all else but `data` set)
  // and returns how many the device took. Calling again with the rest is allowed; reserving again
  // drops them. A frame that can never be sent (too long for the link) counts as taken and is
  // dropped.
  virtual size_t send_burst(std::span<const TxFrame> frames) = 0;

  // Frames that have arrived, empty when none. Borrowed until the next call.
  virtual std::span<const RxFrame> recv_burst() = 0;

  // The same, but that frames which are the expected ones, from the first on, may lie where they
  // are expected; whatever else comes does not. What was there is lost either way: the parts hold
  // anything, but for those of frames that are returned as placed.
  virtual std::span<const RxFrame> recv_placed(const Expected& /*expected*/) {
    return recv_burst();
  }
  // How many bytes of frames are worth telling recv_placed(); 0: it is recv_burst().
  virtual size_t placed_most_bytes() const { return 0; }

  virtual WaitPoint arm() = 0;

  // The largest frame worth trying towards that endpoint (probing decides).
  virtual size_t mtu(const Endpoint& to) = 0;
  // Frames are neither lost nor reordered (in-memory).
  virtual bool reliable() const = 0;
  // A frame may come otherwise than it was sent: over a network, whose checksums are weak. Not
  // within the memory of one machine.
  virtual bool may_alter_bytes() const { return true; }
  // Frames that a sender's kernel has joined (segmentation offload) reach us one by one, whatever
  // the link between does. False: peers are told to send them apart.
  virtual bool takes_joined_frames() const { return true; }
  // A burst costs nothing beside its frames: the first ones of a message go ahead of the others.
  virtual bool bursts_are_cheap() const { return false; }
  // Bytes that may be in flight towards us before the receive buffer overflows: what credits share.
  // A frame counts as kMinFrameCharge at least: a buffer holds bookkeeping beside the bytes.
  virtual size_t receive_capacity_bytes() const = 0;

  // "udp://127.0.0.1:7447": what a client types to reach this listener.
  virtual std::string local_address() const = 0;
  virtual std::string describe(const Endpoint& endpoint) const = 0;
  // What figures call it: "udp"; "dpdk:local" for shared memory by any driver.
  virtual std::string_view kind() const = 0;
  // Why no frame gets through now, where that is known, for errors: "eth1 is down or gone".
  virtual std::string trouble() const { return {}; }
  virtual TransportCounters counters() const = 0;
};

// A client's transport comes with the endpoint that its address named.
struct Connected {
  std::unique_ptr<Transport> transport;
  Endpoint server;
};

// One line per transport in registry.cc. Addresses are "scheme://rest" or "scheme:rest"; the
// functions throw Error(transport) with cause and remedy.
struct TransportKind {
  std::string_view scheme;
  std::unique_ptr<Transport> (*listen)(const std::string& rest, uint32_t shards);
  Connected (*connect)(const std::string& rest);
  bool (*is_loopback)(const std::string& rest);
  std::string (*shard)(const std::string& rest, uint32_t shard);
  // The address (whole) of a client at `rest` for another server's port; host "": at the same host.
  std::string (*at)(const std::string& rest, const std::string& host, uint16_t port);
};

std::span<const TransportKind> transport_kinds();
// shards: how many listeners of this process there will be, at shard_address(address, i): what they
// have in common, such as a NIC, is made for as many.
std::unique_ptr<Transport> listen(const std::string& address, uint32_t shards = 1);
Connected connect(const std::string& address);
// Where shard i of a server is to listen whose first shard (0) listens at `address`. Throws
// Error(transport) where there is no such place.
std::string shard_address(const std::string& address, uint32_t shard);
// Where a client that found the server at `found` finds a shard of which it is told: "+N", the Nth
// behind that one, or the whole address of another host's. Throws Error(protocol, transport).
std::string address_told(const std::string& found, const std::string& told);
// True where only processes of this machine can reach a listener on that address.
bool is_loopback(const std::string& address);

}  // namespace drlnet
