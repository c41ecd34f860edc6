// The server's end of a vhost-user link: a device whose driver (virtio-user) is in another process.
// DPDK's vhost library speaks with that process and maps its memory. Frames are moved here: its own
// driver tells of each buffer that it has read, with a cache line that goes to and fro, and begins
// to fetch the next one only to write to it. Round trips took 0.66 us by it and take 0.54, in
// alternated runs.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "base/copy_choice.h"
#include "base/wake_fd.h"
#include "port.h"
#include "transport/link/packed_ring.h"

namespace drlnet::dpdk {

// What lies in that memory is not trusted, but that it stays is: DPDK's own cannot be sealed, and a
// client that truncates it ends us (SIGBUS). It could do so by kill(2) as well: both ends are
// processes of one user.
// Threading: frames go in and out on one thread at a time. DPDK's vhost thread opens and closes the
// rings, and takes their memory away only when they are closed.
class VhostPort final : public Port {
 public:
  // Listens at the path; frames find buffers in the pool. Whenever the rings are opened, the reader
  // is woken. Throws Error(transport).
  VhostPort(std::string path, uint16_t descriptors, Pool& pool, const std::string& shown,
            WakeFd& reader);
  ~VhostPort() override;

  size_t receive(uint16_t queue, std::span<rte_mbuf*> packets) override;
  size_t send(uint16_t queue, std::span<rte_mbuf*> packets) override;
  // In a buffer of the driver's. Until it is sent, the vhost thread waits for its turn.
  std::byte* place(size_t most_bytes) override;
  void send_placed(std::byte* frame, size_t bytes, const Loans& loans) override;
  bool link_up() const override { return up_.load(std::memory_order_relaxed); }

 private:
  struct Callbacks;

  // The rings as a driver numbers them: it receives from the first one.
  enum Ring : uint16_t { kToDriver, kFromDriver, kRings };

  bool message_begins();
  void message_ends();
  bool read_rings();
  void open_rings();
  void close_rings();

  const std::string path_;
  Pool& pool_;
  WakeFd& reader_;
  // The vhost thread's.
  int device_ = -1;  // DPDK's number of it; -1: none is connected
  bool running_ = false, in_message_ = false;
  std::array<bool, kRings> ready_{};
  std::atomic<bool> up_{false};
  // What follows, and the memory that it names, belongs to the thread that has taken the turn.
  alignas(64) std::atomic_flag taken_;
  link::SharedMemory memory_;
  std::array<link::PackedRing, kRings> rings_;
  CopyChoice choice_;  // of what frames were lent
};

}  // namespace drlnet::dpdk
