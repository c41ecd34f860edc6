// What a transport has of a port: the whole of it, or queues of its own beside other transports, or
// its turns at queues that it has in common with them. Threading: one thread at a time; the others
// that share the port on threads of their own.
//
// A share without company, and one with queues of its own, takes no lock and writes nothing that
// another thread reads, but what it hands over. Only where the device has fewer queues than there
// are transports is a queue locked for the length of a burst; a thread that finds a receiving queue
// in use goes on, for the thread that holds it hands over what is found there.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "crossbar.h"
#include "port.h"

namespace drlnet::dpdk {

// A port's queues in one direction: `first`, and each step-th behind it.
struct QueueSet {
  uint16_t first = 0, step = 1;
  bool common = false;  // others use them, too

  // Those of the member'th of `members`.
  static QueueSet deal(uint16_t queues, size_t member, size_t members) {
    const auto index = static_cast<uint16_t>(member);
    if (queues >= members) return {index, static_cast<uint16_t>(members), false};
    return {static_cast<uint16_t>(index % queues), queues, true};
  }
};

class PortShare {
 public:
  explicit PortShare(std::shared_ptr<Port> port)
      : port_(std::move(port)), queues_(port_->queues()) {}
  // The crossbar outlives us.
  PortShare(std::shared_ptr<Port> port, QueueSet receiving, QueueSet sending, Crossbar& crossbar,
            size_t member)
      : port_(std::move(port)),
        receiving_(receiving),
        sending_(sending),
        crossbar_(&crossbar),
        member_(member),
        queues_(
            static_cast<uint16_t>((port_->queues() - receiving.first - 1) / receiving.step + 1)),
        next_(receiving.first) {}

  Port& port() { return *port_; }
  const Port& port() const { return *port_; }

  // From the next of our queues: to look at all, ask queues() times.
  size_t receive(std::span<rte_mbuf*> packets) {
    const uint16_t queue = next_;
    next_ = static_cast<uint16_t>(next_ + receiving_.step);
    if (next_ >= port_->queues()) next_ = receiving_.first;
    return receiving_.common ? port_->receive_in_turn(queue, packets)
                             : port_->receive(queue, packets);
  }
  uint16_t queues() const { return queues_; }
  size_t send(std::span<rte_mbuf*> packets) {
    return sending_.common ? port_->send_in_turn(sending_.first, packets)
                           : port_->send(sending_.first, packets);
  }

  // What others have received for us.
  size_t take(std::span<rte_mbuf*> packets) {
    return crossbar_ != nullptr ? crossbar_->take(member_, packets) : 0;
  }
  Crossbar::Outcome hand_over(uint16_t udp_port, rte_mbuf* packet) {
    return crossbar_ != nullptr ? crossbar_->hand_over(udp_port, packet)
                                : Crossbar::Outcome::absent;
  }
  void tell_others(const rte_mbuf& packet, rte_mempool* pool) {
    if (crossbar_ != nullptr) crossbar_->tell_others(member_, packet, pool);
  }

  // Frames that may be under way to us: descriptors of our queues, or our part of common ones.
  size_t receive_descriptors() const {
    const size_t sharers = crossbar_ != nullptr ? std::max<size_t>(1, crossbar_->joined()) : 1;
    return port_->receive_descriptors() / sharers;
  }
  // The port's own; the first of its sharers says it.
  uint64_t missed() const { return member_ == 0 ? port_->missed() : 0; }

 private:
  std::shared_ptr<Port> port_;
  QueueSet receiving_, sending_;
  Crossbar* crossbar_ = nullptr;  // null: no others
  size_t member_ = 0;
  uint16_t queues_, next_ = 0;
};

}  // namespace drlnet::dpdk
