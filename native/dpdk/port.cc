#include "port.h"

#include <rte_errno.h>
#include <rte_mempool.h>

#include <atomic>

#include "base/error.h"
#include "transport/link/packet.h"

namespace drlnet::dpdk {
namespace {

constexpr unsigned kCacheBuffers = 64;  // of each thread
// Puts a frame's header into a line of its own, and the headers of the link, virtio's before them,
// into the line in front: as few lines as can be go from one core to the other.
constexpr size_t kLineBytes = 64;
constexpr uint16_t kPayloadShift =
    kLineBytes - (RTE_PKTMBUF_HEADROOM + link::udp_header_bytes(true)) % kLineBytes;

// Runs after DPDK has set the buffer up.
void shift_buffer(rte_mempool*, void*, void* object, unsigned) {
  auto* packet = static_cast<rte_mbuf*>(object);
  packet->buf_addr = static_cast<char*>(packet->buf_addr) + kPayloadShift;
  rte_mbuf_iova_set(packet, rte_mbuf_iova_get(packet) + kPayloadShift);
  packet->buf_len = static_cast<uint16_t>(packet->buf_len - kPayloadShift);
}

}  // namespace

Pool::Pool(size_t buffers, size_t buffer_bytes, bool aligned_payload, const std::string& shown) {
  static std::atomic<unsigned> number{0};
  const std::string name = "drlnet_" + std::to_string(number++);
  pool_.reset(rte_pktmbuf_pool_create(
      name.c_str(), static_cast<unsigned>(buffers), kCacheBuffers, 0,
      static_cast<uint16_t>(buffer_bytes + RTE_PKTMBUF_HEADROOM + kPayloadShift), SOCKET_ID_ANY));
  if (!pool_) {
    throw Error(Status::transport,
                shown + ": no memory for " + std::to_string(buffers) +
                    " packet buffers: " + rte_strerror(rte_errno),
                "Free some memory, or reserve hugepages (vm.nr_hugepages).");
  }
  if (aligned_payload) rte_mempool_obj_iter(pool_.get(), shift_buffer, nullptr);
}

size_t Port::receive_in_turn(uint16_t queue, std::span<rte_mbuf*> packets) {
  rte_spinlock_t& turn = receive_turns_[queue].lock;
  // Looked at before it is written to: threads that wait leave the line where it is.
  if (rte_spinlock_is_locked(&turn) || rte_spinlock_trylock(&turn) == 0) return 0;
  const size_t received = receive(queue, packets);
  rte_spinlock_unlock(&turn);
  return received;
}

size_t Port::send_in_turn(uint16_t queue, std::span<rte_mbuf*> packets) {
  rte_spinlock_t& turn = send_turns_[queue].lock;
  rte_spinlock_lock(&turn);
  const size_t sent = send(queue, packets);
  rte_spinlock_unlock(&turn);
  return sent;
}

void Port::make_turns() {
  receive_turns_.resize(queues_);
  send_turns_.resize(send_queues_);
}

}  // namespace drlnet::dpdk
