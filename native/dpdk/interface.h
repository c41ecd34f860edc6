// A host on a link: a port with an IP address and a UDP port of its own. It answers what a host
// must (ARP, neighbour solicitations, pings) and turns packets into frames and back. Several that
// share a port are one host with as many UDP ports: each knows the neighbours by itself, and passes
// on what it receives for the others. Threading: one thread, and nothing here is shared with
// another's.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "port_share.h"
#include "transport/link/neighbours.h"
#include "transport/link/packet.h"
#include "transport/link/point_to_point.h"
#include "transport/transport.h"

namespace drlnet::dpdk {

// Where in a fresh buffer a payload begins: behind room for the headers.
inline std::byte* payload_of(rte_mbuf* packet) {
  return rte_pktmbuf_mtod_offset(packet, std::byte*, link::udp_header_bytes(true));
}

// An Endpoint's bytes, as this transport understands them.
struct PeerAddress {
  link::IpAddress ip;
  uint32_t generation = 0;  // of the interface in that slot, so that a late reply meets no newcomer
  uint16_t port = 0;
  uint16_t slot = 0;  // of the interface
  std::array<std::byte, 8> zero{};
};
static_assert(sizeof(PeerAddress) == sizeof(Endpoint));
Endpoint to_endpoint(const PeerAddress& address);
PeerAddress from_endpoint(const Endpoint& endpoint);

struct InterfaceOptions {
  link::Subnet address;
  uint16_t udp_port = 0;
  uint16_t mtu = 1500;
  link::Checksums checksums = link::Checksums::headers;
  std::optional<link::IpAddress> gateway;  // for hosts outside the subnet
  std::optional<link::Host> only_peer;     // a point-to-point link: no host is asked for
  link::MacAddress mac;
  uint16_t slot = 0;
  uint32_t generation = 0;
  bool copies_sent = false;  // the device has copied, part by part, what it has taken
};

struct InterfaceCounters {
  std::array<uint64_t, static_cast<size_t>(link::PacketDrop::count)> drops{};
  uint64_t not_for_us = 0, unresolved = 0, too_long = 0, device_full = 0;
  uint64_t handed_over = 0, not_taken = 0;  // to others that share the port; found no room there
};

class Interface {
 public:
  Interface(PortShare share, const InterfaceOptions& options);
  ~Interface();

  // Receives a burst, and one of what others received for us; datagrams for us are added to
  // `frames` and their buffers to `lent`, at most kMostReceived of them. Others are handed over,
  // answered or dropped.
  static constexpr size_t kBurst = 32, kMostReceived = 2 * kBurst;
  void receive(rte_mempool* pool, std::span<RxFrame> frames, std::span<rte_mbuf*> lent,
               size_t& count);

  // Puts headers before the frame, whose data are the packet's payload_of(), and queues the packet,
  // or drops and counts it. What the frame was lent stays as it is until flush().
  void send(rte_mbuf* packet, const TxFrame& frame, const PeerAddress& to, uint64_t now_ns,
            rte_mempool* pool);
  // The same for a frame that has no packet: place() has moved its data to where the peer reads
  // them, if it could, and nothing else is sent before it.
  void place(TxFrame& frame, const PeerAddress& to);
  void send_placed(const TxFrame& frame);
  // Announces this host to the link: neighbours may know our address with another MAC address.
  void announce(rte_mempool* pool);
  // Sends what is queued. What the device does not take is dropped and counted, as on any network:
  // one client that does not read must not hold up the others.
  void flush();

  const InterfaceOptions& options() const { return options_; }
  const InterfaceCounters& counters() const { return counters_; }
  PortShare& share() { return share_; }
  size_t max_payload_bytes() const { return max_payload_bytes_; }

 private:
  enum class Fate { lent, freed, gone };
  Fate on_packet(rte_mbuf* packet, bool first_hand, uint64_t now_ns, rte_mempool* pool,
                 RxFrame& frame);
  Fate pass_on(uint16_t udp_port, rte_mbuf* packet);
  const link::MacAddress* resolve(const link::IpAddress& ip, uint64_t now_ns, rte_mempool* pool);
  void ask(const link::IpAddress& ip, rte_mempool* pool);
  void send_now(rte_mbuf* packet);
  void lend(rte_mbuf* packet, const Loans& loans);

  PortShare share_;
  InterfaceOptions options_;
  link::Host self_;
  // On shared memory, where a peer answers from the port that it is asked at.
  struct Direct {
    link::PointToPoint sent, received;
    Endpoint peer;
  };
  std::optional<Direct> direct_;
  size_t max_payload_bytes_ = 0;
  link::Neighbours neighbours_;
  link::Host last_heard_;       // spares a look at the neighbours for every packet of a burst
  uint64_t last_heard_ns_ = 0;  // or asked
  std::array<rte_mbuf*, 64> queue_{};
  size_t queued_ = 0;
  std::vector<rte_mbuf> parts_;  // of packets in the queue, where the device copies what is sent
  size_t parts_used_ = 0;
  InterfaceCounters counters_;
};

}  // namespace drlnet::dpdk
