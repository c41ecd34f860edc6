// Frames over one or more DPDK ports: one for a client or a NIC, one per client for the server end
// of shared-memory links. Threading: one thread at a time.
#pragma once

#include <pthread.h>

#include <optional>
#include <vector>

#include "doorbell.h"
#include "environment.h"
#include "interface.h"

namespace drlnet::dpdk {

struct Link {
  virtual ~Link() = default;
  std::unique_ptr<Interface> interface;
  std::optional<Doorbell> doorbell;
};

// Makes and ends a transport's links while it runs.
class LinkKeeper {
 public:
  virtual ~LinkKeeper() = default;
  // Called at every look for frames: true when apply() has something to do. Costs next to nothing.
  virtual bool changed() = 0;
  // On the transport's thread; a link's place in `links` is its slot, null when free.
  virtual void apply(std::vector<std::unique_ptr<Link>>& links) = 0;
  // On the transport's thread, before the transport ends: all links are the keeper's to close.
  virtual void close(std::vector<std::unique_ptr<Link>>& links) = 0;
  // Both ends are processes of this machine, whatever either one's address names.
  virtual bool shared_memory() const { return false; }
  // The only peer, where there is one, else an empty endpoint.
  virtual Endpoint server() const { return {}; }
  // Readable when a doorbell was rung or apply() has something to do; -1: nothing tells.
  virtual int wake_fd() const = 0;
  // After apply(): buffers for the links from now on, where a closed one has kept the former ones.
  virtual std::shared_ptr<Pool> fresh_pool() { return nullptr; }
  // Transport's own.
  virtual std::string trouble() const { return {}; }
};

class DpdkTransport final : public Transport {
 public:
  // Frames that the ring of the shortest link holds: what is promised while there is none.
  static constexpr size_t kLeastFrames = 240;
  static constexpr size_t kMaxLinks = 32;  // memif's are ports, of which Debian's DPDK has as many

  DpdkTransport(std::shared_ptr<Pool> pool, std::unique_ptr<LinkKeeper> keeper,
                std::string address);
  ~DpdkTransport() override;

  std::span<TxFrame> reserve(size_t count) override;
  void place(TxFrame& frame) override;
  size_t send_burst(std::span<const TxFrame> frames) override;
  std::span<const RxFrame> recv_burst() override;
  WaitPoint arm() override;
  size_t mtu(const Endpoint& to) override;
  bool reliable() const override { return false; }
  bool may_alter_bytes() const override { return !keeper_->shared_memory(); }
  bool takes_joined_frames() const override { return false; }
  bool bursts_are_cheap() const override { return !asks_neighbours_; }  // on shared memory
  size_t receive_capacity_bytes() const override;
  std::string local_address() const override { return address_; }
  std::string describe(const Endpoint& endpoint) const override;
  // Shared memory, by whichever driver, is another thing than a NIC.
  std::string_view kind() const override {
    return keeper_->shared_memory() ? "dpdk:local" : "dpdk";
  }
  std::string trouble() const override { return keeper_->trouble(); }
  TransportCounters counters() const override;

 private:
  static constexpr size_t kFrames = 64;

  void receive_all();
  bool provide(size_t index);
  void renew_links();
  void disarm();
  Link* link_to(const PeerAddress& to);
  uint64_t clock() const;
  void register_thread() {
    if (pthread_self() == registered_) return;
    register_this_thread();
    registered_ = pthread_self();
  }

  std::vector<std::shared_ptr<Pool>> former_pools_;  // of frames reserved and not sent yet
  std::shared_ptr<Pool> pool_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Interface*> receiving_;  // of the links that there are
  std::unique_ptr<LinkKeeper> keeper_;
  std::string address_;
  std::array<TxFrame, kFrames> tx_frames_;
  std::array<rte_mbuf*, kFrames> tx_packets_{};
  size_t provided_ = 0;  // how many frames, from the first, have a packet
  // Received: those before borrowed_ are lent to the caller, the rest came while arming.
  std::vector<RxFrame> rx_frames_;
  std::vector<rte_mbuf*> rx_packets_;
  size_t borrowed_ = 0, received_ = 0;
  pthread_t registered_ = 0;  // the last thread that was seen to have a number
  bool armed_ = false, asks_neighbours_ = false;
  uint64_t sleep_ns_ = 0;  // the next one, where nothing wakes us
};

}  // namespace drlnet::dpdk
