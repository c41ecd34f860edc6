#include "transport.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/prefetch.h"
#include "base/world.h"

namespace drlnet::dpdk {
namespace {

// Where no interrupt and no doorbell wakes us: sleeps grow while nothing comes.
constexpr uint64_t kFirstSleepNs = 20'000, kLongestSleepNs = 500'000;
// The next frame: its payload's beginning, a session's header and a short message.
constexpr size_t kShortBytes = 128;

}  // namespace

DpdkTransport::DpdkTransport(std::shared_ptr<Pool> pool, std::unique_ptr<LinkKeeper> keeper,
                             std::string address)
    : pool_(std::move(pool)),
      keeper_(std::move(keeper)),
      address_(std::move(address)),
      rx_frames_(2 * kMaxLinks * Interface::kBurst),
      rx_packets_(2 * kMaxLinks * Interface::kBurst),
      sleep_ns_(kFirstSleepNs) {
  if (keeper_->changed()) renew_links();
}

DpdkTransport::~DpdkTransport() {
  rte_pktmbuf_free_bulk(rx_packets_.data(), static_cast<unsigned>(received_));
  for (rte_mbuf* packet : tx_packets_) rte_pktmbuf_free(packet);  // null is allowed
  keeper_->close(links_);
}

void DpdkTransport::renew_links() {
  keeper_->apply(links_);
  if (auto fresh = keeper_->fresh_pool()) {
    std::erase_if(former_pools_, [&](const auto& former) {
      return std::ranges::none_of(tx_packets_, [&](const rte_mbuf* packet) {
        return packet != nullptr && packet->pool == former->get();
      });
    });
    former_pools_.push_back(std::exchange(pool_, std::move(fresh)));
  }
  receiving_.clear();
  for (const auto& link : links_) {
    if (link) receiving_.push_back(link->interface.get());
  }
  asks_neighbours_ = std::ranges::any_of(
      receiving_, [](const Interface* interface) { return !interface->options().only_peer; });
}

// The clock is read only where neighbours are looked after.
uint64_t DpdkTransport::clock() const { return asks_neighbours_ ? now_ns() : 0; }

std::span<TxFrame> DpdkTransport::reserve(size_t count) {
  register_thread();
  count = std::min(count, kFrames);
  while (provided_ < count && provide(provided_)) ++provided_;
  return std::span(tx_frames_).first(std::min(count, provided_));
}

// Gives a frame that has none a packet. False: the pool is empty.
bool DpdkTransport::provide(size_t index) {
  rte_mbuf*& packet = tx_packets_[index];
  if (packet != nullptr) return true;
  packet = rte_pktmbuf_alloc(pool_->get());
  if (packet == nullptr) return false;
  std::byte* const payload = tx_frames_[index].data = payload_of(packet);
  // On shared memory, the receiver of the buffer's last frame has its lines.
  prefetch_to_write(payload - kLineBytes, kLineBytes + kShortBytes);
  return true;
}

Link* DpdkTransport::link_to(const PeerAddress& to) {
  if (to.slot >= links_.size() || !links_[to.slot]) return nullptr;
  Link* link = links_[to.slot].get();
  return link->interface->options().generation == to.generation ? link : nullptr;
}

void DpdkTransport::place(TxFrame& frame) {
  const PeerAddress to = from_endpoint(frame.to);
  if (const Link* link = link_to(to)) link->interface->place(frame, to);
}

size_t DpdkTransport::send_burst(std::span<const TxFrame> frames) {
  register_thread();
  const uint64_t now = clock();
  Link* previous = nullptr;
  const auto flush = [](Link* link) {
    if (link == nullptr) return;
    link->interface->flush();
    if (link->doorbell) link->doorbell->ring();
  };
  for (const TxFrame& frame : frames) {
    const auto index = static_cast<size_t>(&frame - tx_frames_.data());
    DRLNET_ASSERT(index < kFrames && tx_packets_[index] != nullptr);
    const PeerAddress to = from_endpoint(frame.to);
    Link* link = link_to(to);
    if (link != previous) flush(std::exchange(previous, link));
    if (std::byte* const unused = payload_of(tx_packets_[index]); frame.data != unused) {
      link->interface->send_placed(frame);  // no link has gone since it was placed
      tx_frames_[index].data = unused;
      continue;
    }
    rte_mbuf* packet = std::exchange(tx_packets_[index], nullptr);
    if (link == nullptr) {  // the client is gone
      rte_pktmbuf_free(packet);
    } else {
      link->interface->send(packet, frame, to, now, pool_->get());
    }
  }
  flush(previous);
  // Now that they have left: the next ones, which need no waiting then.
  for (const TxFrame& frame : frames) {
    const auto index = static_cast<size_t>(&frame - tx_frames_.data());
    if (!provide(index)) provided_ = std::min(provided_, index);
  }
  return frames.size();
}

void DpdkTransport::receive_all() {
  for (Interface* interface : receiving_) {
    interface->receive(pool_->get(), rx_frames_, rx_packets_, received_);
  }
}

std::span<const RxFrame> DpdkTransport::recv_burst() {
  register_thread();
  if (armed_) disarm();
  const size_t first = std::exchange(borrowed_, 0);
  if (first > 0) rte_pktmbuf_free_bulk(rx_packets_.data(), static_cast<unsigned>(first));
  if (first < received_) {  // what came while arming
    std::copy(rx_frames_.begin() + static_cast<ptrdiff_t>(first),
              rx_frames_.begin() + static_cast<ptrdiff_t>(received_), rx_frames_.begin());
    std::copy(rx_packets_.begin() + static_cast<ptrdiff_t>(first),
              rx_packets_.begin() + static_cast<ptrdiff_t>(received_), rx_packets_.begin());
    received_ -= first;
  } else {
    received_ = 0;
    if (keeper_->changed()) renew_links();
    receive_all();
  }
  borrowed_ = received_;
  if (received_ > 0) sleep_ns_ = kFirstSleepNs;
  return {rx_frames_.data(), received_};
}

WaitPoint DpdkTransport::arm() {
  register_thread();
  const int wake_fd = keeper_->wake_fd();
  if (wake_fd >= 0) {
    for (const auto& link : links_) {
      if (link && link->doorbell) link->doorbell->wait_begins();
    }
    armed_ = true;
  }
  if (received_ == borrowed_) receive_all();
  if (received_ > borrowed_ || (wake_fd >= 0 && keeper_->changed())) return {-1, 0};
  if (wake_fd >= 0) return {wake_fd, 0};
  const WaitPoint point{-1, now_ns() + sleep_ns_};
  sleep_ns_ = std::min(2 * sleep_ns_, kLongestSleepNs);
  return point;
}

void DpdkTransport::disarm() {
  armed_ = false;
  for (const auto& link : links_) {
    if (link && link->doorbell) link->doorbell->wait_ended();
  }
  uint64_t rung;
  // Not readable when it was a deadline that ended the wait.
  [[maybe_unused]] const ssize_t read_bytes = read(keeper_->wake_fd(), &rung, sizeof rung);
}

size_t DpdkTransport::mtu(const Endpoint& to) {
  const Link* link = link_to(from_endpoint(to));
  if (link != nullptr) return link->interface->max_payload_bytes();
  // Frames without a receiver are filled all the same.
  const size_t room = rte_pktmbuf_data_room_size(pool_->get()) - RTE_PKTMBUF_HEADROOM -
                      link::udp_header_bytes(true) - sizeof(uint64_t);
  return std::min(kJumboFrameBytes, room / 8 * 8);
}

size_t DpdkTransport::receive_capacity_bytes() const {
  // Rings hold frames, however long; each link has its own.
  size_t descriptors = 0;
  for (const auto& link : links_) {
    if (link) descriptors += link->interface->share().receive_descriptors();
  }
  return (descriptors > 0 ? descriptors : kLeastFrames) * kMinFrameCharge;
}

std::string DpdkTransport::describe(const Endpoint& endpoint) const {
  const PeerAddress peer = from_endpoint(endpoint);
  // A client of shared memory knows its server by name; the server tells its clients apart.
  if (endpoint == keeper_->server()) return address_;
  const std::string ip = peer.ip.v4() ? peer.ip.text() : "[" + peer.ip.text() + "]";
  return "dpdk://" + ip + ":" + std::to_string(peer.port);
}

TransportCounters DpdkTransport::counters() const {
  TransportCounters sum;
  for (const auto& link : links_) {
    if (!link) continue;
    const InterfaceCounters& counters = link->interface->counters();
    sum.too_long += counters.too_long;
    sum.send_failed += counters.unresolved + counters.device_full;
    sum.receive_overflow += link->interface->share().missed() + counters.not_taken;
    sum.handed_over += counters.handed_over;
    for (const uint64_t count : counters.drops) sum.receive_dropped += count;
  }
  return sum;
}

}  // namespace drlnet::dpdk
