// Where the transports that share a port hand each other frames: one that came on a queue of
// another's, by its UDP port. Threading: each member's take() and leave() on one thread at a time,
// hand_over() and tell_others() on any member's, join() on one thread at a time beside all of them.
// Nothing locks: a ring of many producers and one consumer per member.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace drlnet::dpdk {

class Crossbar {
 public:
  // As many frames as one session has under way to it at most, with place to spare.
  static constexpr unsigned kRingFrames = 1024;

  explicit Crossbar(size_t places) : places_(places) {}
  ~Crossbar();
  Crossbar(const Crossbar&) = delete;

  // The lowest free place, or size() when there is none. Throws Error(transport) without memory.
  size_t join(uint16_t udp_port, const std::string& shown);
  void leave(size_t member);
  bool has(uint16_t udp_port) const { return owner(udp_port) != size(); }
  size_t size() const { return places_.size(); }
  size_t joined() const { return joined_.load(std::memory_order_relaxed); }
  bool ever_shared() const { return used_.load(std::memory_order_relaxed) > 1; }

  enum class Outcome { absent, full, taken };
  // The packet is the owner's when it is taken, and stays the caller's otherwise.
  Outcome hand_over(uint16_t udp_port, rte_mbuf* packet);
  // Copies of the packet for all but that member, as far as they have room.
  void tell_others(size_t member, const rte_mbuf& packet, rte_mempool* pool);
  // What others have received for that member.
  size_t take(size_t member, std::span<rte_mbuf*> packets) {
    return rte_ring_sc_dequeue_burst(places_[member].ring.get(),
                                     reinterpret_cast<void**>(packets.data()),
                                     static_cast<unsigned>(packets.size()), nullptr);
  }

 private:
  struct Place {
    std::atomic<uint32_t> udp_port{kNoPort};  // stored after the ring is there
    // Stays when its member leaves: another may be handing over to it.
    std::unique_ptr<rte_ring, decltype(&rte_ring_free)> ring{nullptr, &rte_ring_free};
  };
  static constexpr uint32_t kNoPort = 1 << 16;

  size_t owner(uint16_t udp_port) const;
  void drain(Place& place);

  std::vector<Place> places_;
  std::atomic<size_t> joined_{0};
  std::atomic<size_t> used_{0};  // one past the last place that ever had a member
};

}  // namespace drlnet::dpdk
