#include "crossbar.h"

#include <rte_errno.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace drlnet::dpdk {

Crossbar::~Crossbar() {
  for (Place& place : places_) drain(place);
}

size_t Crossbar::join(uint16_t udp_port, const std::string& shown) {
  static std::atomic<unsigned> number{0};
  const auto free = std::ranges::find_if(
      places_, [](const Place& place) { return place.udp_port.load() == kNoPort; });
  if (free == places_.end()) return size();
  const auto member = static_cast<size_t>(free - places_.begin());
  if (!free->ring) {
    const std::string name = "drlnet_frames_" + std::to_string(number++);
    free->ring.reset(rte_ring_create(name.c_str(), kRingFrames, SOCKET_ID_ANY, RING_F_SC_DEQ));
    if (!free->ring) {
      throw Error(Status::transport,
                  shown + ": no memory for a ring of frames: " + rte_strerror(rte_errno),
                  "Free some memory, or reserve hugepages (vm.nr_hugepages).");
    }
  }
  drain(*free);  // what was on its way to the former member
  free->udp_port.store(udp_port, std::memory_order_release);
  used_.store(std::max(used_.load(), member + 1), std::memory_order_release);
  joined_.fetch_add(1);
  return member;
}

void Crossbar::leave(size_t member) {
  places_[member].udp_port.store(kNoPort);
  joined_.fetch_sub(1);
  drain(places_[member]);
}

size_t Crossbar::owner(uint16_t udp_port) const {
  const size_t used = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    if (places_[i].udp_port.load(std::memory_order_acquire) == udp_port) return i;
  }
  return size();
}

Crossbar::Outcome Crossbar::hand_over(uint16_t udp_port, rte_mbuf* packet) {
  const size_t member = owner(udp_port);
  if (member == size()) return Outcome::absent;
  const bool taken = rte_ring_mp_enqueue(places_[member].ring.get(), packet) == 0;
  return taken ? Outcome::taken : Outcome::full;
}

void Crossbar::tell_others(size_t member, const rte_mbuf& packet, rte_mempool* pool) {
  const size_t used = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    if (i == member || places_[i].udp_port.load(std::memory_order_acquire) == kNoPort) continue;
    rte_mbuf* copy = rte_pktmbuf_copy(&packet, pool, 0, UINT32_MAX);
    if (copy != nullptr && rte_ring_mp_enqueue(places_[i].ring.get(), copy) != 0) {
      rte_pktmbuf_free(copy);
    }
  }
}

void Crossbar::drain(Place& place) {
  if (!place.ring) return;
  std::array<rte_mbuf*, 32> packets;
  for (;;) {
    const unsigned count = rte_ring_sc_dequeue_burst(
        place.ring.get(), reinterpret_cast<void**>(packets.data()), packets.size(), nullptr);
    if (count == 0) return;
    rte_pktmbuf_free_bulk(packets.data(), count);
  }
}

}  // namespace drlnet::dpdk
