#include "posted_buffers.h"

#include <rte_eth_vhost.h>
#include <rte_pause.h>

#include <array>
#include <cerrno>

namespace drlnet::dpdk {
namespace {

constexpr uint16_t kRing = 0;                         // the one that the other end receives from
constexpr uint64_t kPackedRings = uint64_t{1} << 34;  // virtio 1.1, feature bits
constexpr uint64_t kIndexBits = 0x7fff;               // the rest says which time round it is
// Headers of virtio, link and session, and the first bytes of a message. See kPayloadShift.
constexpr uint64_t kLineBytes = 64, kFetchedBytes = 3 * kLineBytes;
constexpr std::array kEvents = {RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_QUEUE_STATE};

// A descriptor of a packed ring (virtio 1.1, 2.7).
struct PackedDescriptor {
  uint64_t address;
  uint32_t length;
  uint16_t id, flags;
};
static_assert(sizeof(PackedDescriptor) == 16);

// The compiler's own prefetch for writing is one for reading, but on processors that it is told of.
// The others take this instruction for none.
void prefetch_to_write(uint64_t address) {
  const auto* place = reinterpret_cast<const char*>(address);
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*place));
#else
  __builtin_prefetch(place, 1);
#endif
}

}  // namespace

PostedBuffers::PostedBuffers(uint16_t port) : port_(port) {
  for (const auto event : kEvents) rte_eth_dev_callback_register(port_, event, &on_event, this);
}

PostedBuffers::~PostedBuffers() {
  for (const auto event : kEvents) {
    // -EAGAIN: it runs at this moment.
    while (rte_eth_dev_callback_unregister(port_, event, &on_event, this) == -EAGAIN) rte_pause();
  }
}

void PostedBuffers::fetch() {
  if (in_use_.test_and_set(std::memory_order_acquire)) return;
  uint16_t next = 0, used = 0;
  if (device_ >= 0 && rte_vhost_get_vring_base(device_, kRing, &next, &used) == 0) {
    auto* const descriptors = reinterpret_cast<PackedDescriptor*>(ring_.desc_packed);
    PackedDescriptor& posted = descriptors[next & kIndexBits];
    // Whatever the other end says: an address outside its memory becomes none, and fetching writes
    // nothing.
    uint64_t length = kFetchedBytes;
    const uint64_t begin = rte_vhost_va_from_guest_pa(
        memory_.get(), std::atomic_ref(posted.address).load(std::memory_order_relaxed), &length);
    if (begin != 0 && length == kFetchedBytes) {
      for (uint64_t at = 0; at < length; at += kLineBytes) prefetch_to_write(begin + at);
    }
  }
  in_use_.clear(std::memory_order_release);
}

int PostedBuffers::on_event(uint16_t, rte_eth_event_type event, void* self, void*) {
  static_cast<PostedBuffers*>(self)->look(event);
  return 0;
}

// The other end disables a ring before it names other memory for it, and enables it afterwards.
void PostedBuffers::look(rte_eth_event_type event) {
  while (in_use_.test_and_set(std::memory_order_acquire)) rte_pause();
  rte_eth_link link{};
  const bool up = rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  if (event == RTE_ETH_EVENT_INTR_LSC && !up) enabled_ = false;
  rte_eth_vhost_queue_event change{};
  while (event == RTE_ETH_EVENT_QUEUE_STATE && rte_eth_vhost_get_queue_event(port_, &change) == 0) {
    if (2 * change.queue_id + change.rx == kRing) enabled_ = change.enable;
  }
  device_ = up && enabled_ ? rte_eth_vhost_get_vid_from_port_id(port_) : -1;
  uint64_t features = 0;
  rte_vhost_memory* memory = nullptr;
  if (device_ >= 0 &&
      (rte_vhost_get_negotiated_features(device_, &features) != 0 ||
       (features & kPackedRings) == 0 || rte_vhost_get_vhost_vring(device_, kRing, &ring_) != 0 ||
       rte_vhost_get_mem_table(device_, &memory) != 0)) {
    device_ = -1;
  }
  memory_.reset(memory);
  in_use_.clear(std::memory_order_release);
}

}  // namespace drlnet::dpdk
