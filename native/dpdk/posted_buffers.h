// Where a vhost device will write its next frame: into a buffer that the other end has posted, and
// whose cache lines that end's core holds. They are asked for when a frame has come, while its
// answer is being made, and not only when the answer is written.
#pragma once

#include <rte_ethdev.h>
#include <rte_vhost.h>

#include <atomic>
#include <cstdlib>
#include <memory>

namespace drlnet::dpdk {

// Threading: fetch() and all else on the thread that polls the port. DPDK's vhost thread tells of
// rings that come and go, and takes their memory away only once it has told.
class PostedBuffers {
 public:
  explicit PostedBuffers(uint16_t port);  // of a vhost device, not connected yet
  ~PostedBuffers();
  PostedBuffers(const PostedBuffers&) = delete;
  PostedBuffers& operator=(const PostedBuffers&) = delete;

  // Starts fetching what a short frame fills of the next buffer, to be written.
  void fetch();

 private:
  static int on_event(uint16_t port, rte_eth_event_type event, void* self, void*);
  void look(rte_eth_event_type event);

  uint16_t port_;
  std::atomic_flag in_use_;  // what follows, and the memory that it names
  bool enabled_ = false;     // the ring, by the other end
  int device_ = -1;          // vhost's number; -1: there is nothing to look at
  rte_vhost_vring ring_{};
  std::unique_ptr<rte_vhost_memory, decltype(&std::free)> memory_{nullptr, &std::free};
};

}  // namespace drlnet::dpdk
