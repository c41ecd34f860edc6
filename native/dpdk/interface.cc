#include "interface.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/world.h"

namespace drlnet::dpdk {
namespace {

// A host silent for so long may have got another MAC address, with a new interface: it is asked.
constexpr uint64_t kSilentNs = 1'000'000'000;

// The parts of one packet: each loan, and the frame's own bytes behind it.
constexpr size_t kParts = 256;
static_assert(2 * Loans::kMost <= kParts);

constexpr size_t kDirectHeaders = link::udp_header_bytes(true);

// Makes `part` refer to bytes that no pool knows of. A reference of ours keeps the one that frees
// the packet from freeing its parts.
void refer(rte_mbuf& part, const std::byte* data, size_t bytes) {
  static rte_mbuf_ext_shared_info info{[](void*, void*) {}, nullptr, 1};
  rte_pktmbuf_attach_extbuf(&part, const_cast<std::byte*>(data), RTE_BAD_IOVA,
                            static_cast<uint16_t>(bytes), &info);
  part.data_len = static_cast<uint16_t>(bytes);
  part.nb_segs = 1;
  part.next = nullptr;
  rte_mbuf_refcnt_set(&part, 2);
}

}  // namespace

Endpoint to_endpoint(const PeerAddress& address) {
  Endpoint endpoint;
  std::memcpy(endpoint.bytes.data(), &address, sizeof address);
  return endpoint;
}

PeerAddress from_endpoint(const Endpoint& endpoint) {
  PeerAddress address;
  std::memcpy(&address, endpoint.bytes.data(), sizeof address);
  return address;
}

Interface::Interface(PortShare share, const InterfaceOptions& options)
    : share_(std::move(share)), options_(options) {
  self_ = {options.mac, options.address.address};
  const size_t headers = link::udp_header_bytes(self_.ip.v4()) - link::kEthernetBytes;
  max_payload_bytes_ = std::min(kJumboFrameBytes, (options.mtu - headers) / 8 * 8);
  if (options_.copies_sent) parts_.resize(kParts);
  if (options_.only_peer && options_.checksums == link::Checksums::none && self_.ip.v4()) {
    const link::Host& peer = *options_.only_peer;
    const uint16_t port = options_.udp_port;
    direct_ = {link::PointToPoint({self_, peer, port, port}),
               link::PointToPoint({peer, self_, port, port}),
               to_endpoint({peer.ip, options_.generation, port, options_.slot, {}})};
  }
}

Interface::~Interface() { rte_pktmbuf_free_bulk(queue_.data(), static_cast<unsigned>(queued_)); }

void Interface::receive(rte_mempool* pool, std::span<RxFrame> frames, std::span<rte_mbuf*> lent,
                        size_t& count) {
  std::array<rte_mbuf*, kMostReceived> packets;
  size_t received = 0;
  for (uint16_t left = share_.queues(); left > 0 && received == 0; --left) {
    received = share_.receive(std::span(packets).first(kBurst));
  }
  const size_t first_hand = received;
  received += share_.take(std::span(packets).subspan(received, kBurst));
  // Another core wrote them: the headers of the link and of the session and what a small message
  // carries are on their way while the headers are looked at. A long one streams by itself.
  constexpr size_t kHeads = 1200;
  const auto fetch = [=](rte_mbuf* packet) {
    const size_t end = std::min<size_t>(rte_pktmbuf_data_len(packet), kHeads);
    for (size_t line = 0; line < end; line += 64) {
      rte_prefetch0(rte_pktmbuf_mtod_offset(packet, void*, line));
    }
  };
  if (received == 0) return;
  fetch(packets[0]);
  // Only neighbours have an age, and only frames are worth a look at the clock.
  const uint64_t now = options_.only_peer ? 0 : now_ns();
  for (size_t i = 0; i < received; ++i) {
    if (i + 1 < received) fetch(packets[i + 1]);
    switch (on_packet(packets[i], i < first_hand, now, pool, frames[count])) {
      case Fate::lent:
        lent[count++] = packets[i];
        break;
      case Fate::freed:
        rte_pktmbuf_free(packets[i]);
        break;
      case Fate::gone:
        break;
    }
  }
}

Interface::Fate Interface::on_packet(rte_mbuf* packet, bool first_hand, uint64_t now,
                                     rte_mempool* pool, RxFrame& frame) {
  auto checksums = options_.checksums;
  if (share_.port().verifies_checksums()) {
    if ((packet->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD ||
        (packet->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD) {
      ++counters_.drops[static_cast<size_t>(link::PacketDrop::bad_checksum)];
      return Fate::freed;
    }
    if ((packet->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD) {
      checksums = link::Checksums::headers;
    }
  }
  link::PacketDrop drop{};
  link::Packet parsed;
  // Some NICs fill no more than 8 KiB of a buffer: the end of a jumbo frame comes in a second one,
  // and is moved behind its beginning. What does not fit there is not ours.
  if (packet->nb_segs != 1 && rte_pktmbuf_linearize(packet) != 0) {
    ++counters_.drops[static_cast<size_t>(link::PacketDrop::malformed)];
    return Fate::freed;
  }
  const std::span<const std::byte> bytes(rte_pktmbuf_mtod(packet, const std::byte*),
                                         rte_pktmbuf_data_len(packet));
  if (direct_) {
    const auto payload = direct_->received.payload_of(bytes);
    if (!payload.empty() && payload.size() <= kJumboFrameBytes) {
      frame.from = direct_->peer;
      frame.data = payload;
      return Fate::lent;
    }
  }
  if (!link::parse_packet(bytes, checksums, parsed, drop)) {
    ++counters_.drops[static_cast<size_t>(drop)];
    return Fate::freed;
  }
  const link::Host& from = parsed.path.from;
  if (!options_.only_peer && !(from.ip == last_heard_.ip && from.mac == last_heard_.mac)) {
    neighbours_.heard(from.ip, from.mac, now);
    last_heard_ = from;
  }
  last_heard_ns_ = now;
  switch (parsed.kind) {
    case link::PacketKind::datagram:
      break;
    case link::PacketKind::question: {
      rte_mbuf* reply = rte_pktmbuf_alloc(pool);
      if (reply == nullptr) return Fate::freed;
      const std::span<std::byte> room(rte_pktmbuf_mtod(reply, std::byte*), link::kMaxAnswerBytes);
      const size_t length = link::write_answer(parsed, self_, room);
      reply->data_len = static_cast<uint16_t>(length);
      reply->pkt_len = static_cast<uint32_t>(length);
      length > 0 ? send_now(reply) : rte_pktmbuf_free(reply);
      return Fate::freed;
    }
    case link::PacketKind::neighbour:
      // Another one may have asked.
      if (first_hand) share_.tell_others(*packet, pool);
      return Fate::freed;
  }
  const bool our_ip = parsed.path.to.ip == self_.ip;
  if (our_ip && parsed.path.to_port != options_.udp_port) {
    return pass_on(parsed.path.to_port, packet);
  }
  if (!our_ip || parsed.payload.empty() || parsed.payload.size() > kJumboFrameBytes) {
    ++counters_.not_for_us;
    return Fate::freed;
  }
  frame.from =
      to_endpoint({from.ip, options_.generation, parsed.path.from_port, options_.slot, {}});
  frame.data = parsed.payload;
  return Fate::lent;
}

Interface::Fate Interface::pass_on(uint16_t udp_port, rte_mbuf* packet) {
  switch (share_.hand_over(udp_port, packet)) {
    case Crossbar::Outcome::taken:
      ++counters_.handed_over;
      return Fate::gone;
    case Crossbar::Outcome::full:
      ++counters_.not_taken;
      return Fate::freed;
    case Crossbar::Outcome::absent:
      break;
  }
  ++counters_.not_for_us;
  return Fate::freed;
}

const link::MacAddress* Interface::resolve(const link::IpAddress& ip, uint64_t now,
                                           rte_mempool* pool) {
  if (options_.only_peer) return &options_.only_peer->mac;
  const bool near = options_.address.contains(ip) || !options_.gateway;
  const link::IpAddress& next = near ? ip : *options_.gateway;
  if (ip == last_heard_.ip) {
    if (now - last_heard_ns_ >= kSilentNs) {
      last_heard_ns_ = now;
      ask(next, pool);
    }
    return &last_heard_.mac;
  }
  const auto [mac, ask_now] = neighbours_.find(next, now);
  if (ask_now) ask(next, pool);
  return mac;
}

void Interface::ask(const link::IpAddress& ip, rte_mempool* pool) {
  rte_mbuf* question = rte_pktmbuf_alloc(pool);
  if (question == nullptr) return;
  const size_t length = link::write_question(
      self_, ip, {rte_pktmbuf_mtod(question, std::byte*), link::kMaxAnswerBytes});
  question->data_len = static_cast<uint16_t>(length);
  question->pkt_len = static_cast<uint32_t>(length);
  send_now(question);
}

void Interface::announce(rte_mempool* pool) {
  rte_mbuf* frame = rte_pktmbuf_alloc(pool);
  if (frame == nullptr) return;
  const size_t length =
      link::write_announcement(self_, {rte_pktmbuf_mtod(frame, std::byte*), link::kMaxAnswerBytes});
  frame->data_len = static_cast<uint16_t>(length);
  frame->pkt_len = static_cast<uint32_t>(length);
  send_now(frame);
}

void Interface::send_now(rte_mbuf* packet) {
  if (share_.send({&packet, 1}) == 1) return;
  ++counters_.device_full;
  rte_pktmbuf_free(packet);
}

void Interface::send(rte_mbuf* packet, const TxFrame& frame, const PeerAddress& to, uint64_t now,
                     rte_mempool* pool) {
  const uint32_t length = frame.length;
  const link::MacAddress* mac = nullptr;
  if (length > max_payload_bytes()) {
    ++counters_.too_long;
  } else if ((mac = resolve(to.ip, now, pool)) == nullptr) {
    ++counters_.unresolved;
  }
  if (mac == nullptr) return rte_pktmbuf_free(packet);
  if (!options_.copies_sent) frame.loans.copy_out();
  const size_t headers = link::udp_header_bytes(self_.ip.v4());
  if (direct_ && to.port == options_.udp_port) {
    direct_->sent.write(payload_of(packet), length);
  } else {
    const link::UdpPath path{self_, {*mac, to.ip}, options_.udp_port, to.port};
    link::write_udp_headers(payload_of(packet), length, path, options_.checksums, frame.loans);
  }
  // IPv6 headers are longer than the room before the payload: they reach into the headroom.
  packet->data_off =
      static_cast<uint16_t>(packet->data_off + link::udp_header_bytes(true) - headers);
  packet->data_len = static_cast<uint16_t>(headers + length);
  packet->pkt_len = static_cast<uint32_t>(headers + length);
  if (queued_ == queue_.size() || parts_used_ + 2 * frame.loans.all().size() > kParts) flush();
  if (options_.copies_sent && !frame.loans.empty()) lend(packet, frame.loans);
  queue_[queued_++] = packet;
}

void Interface::place(TxFrame& frame, const PeerAddress& to) {
  if (!direct_ || to.port != options_.udp_port || frame.length > max_payload_bytes_) return;
  std::byte* const placed = share_.port().place(kDirectHeaders + frame.length);
  if (placed != nullptr) frame.data = placed + kDirectHeaders;
}

void Interface::send_placed(const TxFrame& frame) {
  DRLNET_ASSERT(queued_ == 0);
  direct_->sent.write(frame.data, frame.length);
  share_.port().send_placed(frame.data - kDirectHeaders, kDirectHeaders + frame.length,
                            frame.loans);
}

// Makes a chain of the packet: its own bytes in the order of the frame's, loans between them.
void Interface::lend(rte_mbuf* packet, const Loans& loans) {
  std::byte* const begin = rte_pktmbuf_mtod(packet, std::byte*);
  std::byte* const end = begin + rte_pktmbuf_data_len(packet);
  std::byte* next = loans.all().front().place;
  packet->data_len = static_cast<uint16_t>(next - begin);  // the headers at least
  rte_mbuf* last = packet;
  const auto add = [&](const std::byte* data, size_t bytes) {
    rte_mbuf& part = parts_[parts_used_++];
    refer(part, data, bytes);
    last = last->next = &part;
    ++packet->nb_segs;
  };
  for (const Loan& loan : loans.all()) {
    if (loan.place > next) add(next, static_cast<size_t>(loan.place - next));
    add(loan.from, loan.bytes);
    next = loan.place + loan.bytes;
  }
  if (end > next) add(next, static_cast<size_t>(end - next));
}

void Interface::flush() {
  if (queued_ == 0) return;
  const size_t sent = share_.send({queue_.data(), queued_});
  counters_.device_full += queued_ - sent;
  rte_pktmbuf_free_bulk(queue_.data() + sent, static_cast<unsigned>(queued_ - sent));
  queued_ = parts_used_ = 0;
}

}  // namespace drlnet::dpdk
