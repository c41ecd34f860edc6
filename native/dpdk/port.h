// What an interface receives packets from and sends them to. Threading: each queue on one thread at
// a time, or by receive_in_turn() and send_in_turn().
#pragma once

#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/loans.h"

namespace drlnet::dpdk {

// Bytes of a frame that a buffer holds: a 9,000-byte MTU and more.
constexpr size_t kBufferBytes = 9216;

// Packet buffers, shared by the ports of one transport, or by the transports of one port.
// Threading: any thread; fast on registered ones.
class Pool {
 public:
  // aligned_payload: buffers are shifted so that a UDP payload over IPv4 begins a cache line; not
  // for drivers that work out buffers' addresses by themselves. Throws Error(transport).
  Pool(size_t buffers, size_t buffer_bytes, bool aligned_payload, const std::string& shown);
  rte_mempool* get() const { return pool_.get(); }

 private:
  std::unique_ptr<rte_mempool, decltype(&rte_mempool_free)> pool_{nullptr, &rte_mempool_free};
};

class Port {
 public:
  virtual ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  virtual size_t receive(uint16_t queue, std::span<rte_mbuf*> packets) = 0;
  virtual size_t send(uint16_t queue, std::span<rte_mbuf*> packets) = 0;
  // Where the next frame may be written without being copied, of that many bytes at most; null
  // where there is no such place. The next call is send_placed(), before receive() and send(),
  // which puts in place what the frame was lent.
  virtual std::byte* place(size_t /*most_bytes*/) { return nullptr; }
  virtual void send_placed(std::byte* /*frame*/, size_t /*bytes*/, const Loans& /*loans*/) {}
  // On a queue that several threads use. Nothing is received while another one is at it.
  size_t receive_in_turn(uint16_t queue, std::span<rte_mbuf*> packets);
  size_t send_in_turn(uint16_t queue, std::span<rte_mbuf*> packets);
  uint16_t queues() const { return queues_; }
  uint16_t send_queues() const { return send_queues_; }
  virtual bool link_up() const = 0;
  uint16_t receive_descriptors() const { return receive_descriptors_; }
  bool verifies_checksums() const { return verifies_checksums_; }
  // Frames that the device dropped for want of a buffer or a descriptor.
  virtual uint64_t missed() const { return 0; }

 protected:
  Port() = default;
  void make_turns();  // once the numbers of queues are known

  uint16_t queues_ = 1, send_queues_ = 1;
  uint16_t receive_descriptors_ = 0;
  bool verifies_checksums_ = false;

 private:
  struct alignas(64) Turn {
    rte_spinlock_t lock = RTE_SPINLOCK_INITIALIZER;
  };
  std::vector<Turn> receive_turns_, send_turns_;  // by queue
};

}  // namespace drlnet::dpdk
