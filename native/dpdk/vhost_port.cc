#include "vhost_port.h"

#include <rte_pause.h>
#include <rte_vhost.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/streaming_copy.h"
#include "base/world.h"
#include "environment.h"

namespace drlnet::dpdk {
namespace {

using link::PackedRing;
using link::SharedMemory;

// Virtio 1.1, 6: VIRTIO_F_VERSION_1, VIRTIO_F_RING_PACKED, VIRTIO_F_IN_ORDER.
constexpr uint64_t kNeeded = uint64_t{1} << 32 | uint64_t{1} << 34 | uint64_t{1} << 35;
constexpr uint64_t kOffered = kNeeded | uint64_t{1} << VHOST_USER_F_PROTOCOL_FEATURES;

// What goes before each frame (5.1.6): with the features that are not offered, nothing of it is in
// use.
struct Header {
  uint8_t flags = 0, segmentation = 0;
  std::array<uint16_t, 4> of_segmentation_and_checksums{};
  uint16_t buffers = 1;
};
static_assert(sizeof(Header) == 12);
constexpr Header kHeader;

// The next answer, before it is known how long it is: the headers of virtio, link and session,
// and the first bytes of a message. Their lines are the driver's, and come while it is busy with
// the answer before.
constexpr size_t kShortBytes = 192;

// How, in a packed ring, the device wants to be told of buffers (2.7.14).
struct Notifications {
  uint16_t position, flags;
  static constexpr uint16_t kDisabled = 1;
};
static_assert(sizeof(Notifications) == 4);

class Guard {
 public:
  explicit Guard(std::atomic_flag& taken) : taken_(taken) {
    while (taken_.test_and_set(std::memory_order_acquire)) rte_pause();
  }
  ~Guard() { taken_.clear(std::memory_order_release); }
  Guard(const Guard&) = delete;

 private:
  std::atomic_flag& taken_;
};

// DPDK names a device by a number, and where it listens; its callbacks have no other argument.
struct Directory {
  std::mutex mutex;
  std::vector<VhostPort*> ports;
};
Directory& directory() {
  static Directory instance;
  return instance;
}

}  // namespace

struct VhostPort::Callbacks {
  // Calls what(port) for the device's port, if the device is the one that it has, or may have.
  template <class What>
  static bool tell(int device, What what) {
    std::array<char, sizeof(sockaddr_un::sun_path)> path{};
    if (rte_vhost_get_ifname(device, path.data(), path.size()) != 0) return false;
    Directory& all = directory();
    const std::lock_guard lock(all.mutex);
    for (VhostPort* port : all.ports) {
      if (port->path_ != path.data()) continue;
      return (port->device_ == device || port->device_ < 0) && what(*port);
    }
    return false;
  }

  static int connected(int device) {
    const bool taken = tell(device, [=](VhostPort& port) {
      if (port.device_ >= 0) return false;
      port.device_ = device;
      static constexpr rte_vhost_user_extern_ops kMessages = {message_begins, message_ends};
      return rte_vhost_extern_callback_register(device, &kMessages, nullptr) == 0;
    });
    return taken ? 0 : -1;
  }
  static void disconnected(int device) {
    tell(device, [](VhostPort& port) {
      port.device_ = -1;
      port.in_message_ = false;
      port.ready_ = {};
      return true;
    });
  }
  static rte_vhost_msg_result message_begins(int device, void*) {
    return tell(device, [](VhostPort& port) { return port.message_begins(); })
               ? RTE_VHOST_MSG_RESULT_NOT_HANDLED
               : RTE_VHOST_MSG_RESULT_ERR;
  }
  static rte_vhost_msg_result message_ends(int device, void*) {
    tell(device, [](VhostPort& port) {
      port.message_ends();
      return true;
    });
    return RTE_VHOST_MSG_RESULT_NOT_HANDLED;
  }
  static int ring_changed(int device, uint16_t ring, int ready) {
    tell(device, [=](VhostPort& port) {
      if (ring >= kRings) return true;
      port.ready_[ring] = ready != 0;
      port.close_rings();
      port.open_rings();
      return true;
    });
    return 0;
  }
  static int runs(int device) {
    tell(device, [](VhostPort& port) {
      port.running_ = true;
      port.open_rings();
      return true;
    });
    return 0;
  }
  static void stops(int device) {
    tell(device, [](VhostPort& port) {
      port.close_rings();
      port.running_ = false;
      return true;
    });
  }
  static const rte_vhost_device_ops& operations() {
    static const rte_vhost_device_ops instance = [] {
      rte_vhost_device_ops operations{};
      operations.new_connection = connected;
      operations.destroy_connection = disconnected;
      operations.vring_state_changed = ring_changed;
      operations.new_device = runs;
      operations.destroy_device = stops;
      return operations;
    }();
    return instance;
  }
};

VhostPort::VhostPort(std::string path, uint16_t descriptors, Pool& pool, const std::string& shown,
                     WakeFd& reader)
    : path_(std::move(path)), pool_(pool), reader_(reader) {
  receive_descriptors_ = static_cast<uint16_t>(descriptors - PackedRing::kMostUntold);
  make_turns();
  {
    const std::lock_guard lock(directory().mutex);
    directory().ports.push_back(this);
  }
  Environment::get().run([&] {
    if (rte_vhost_driver_register(path_.c_str(), 0) == 0 &&
        rte_vhost_driver_disable_features(path_.c_str(), ~kOffered) == 0 &&
        rte_vhost_driver_callback_register(path_.c_str(), &Callbacks::operations()) == 0 &&
        rte_vhost_driver_start(path_.c_str()) == 0) {
      return;
    }
    const std::string said = last_log();
    rte_vhost_driver_unregister(path_.c_str());
    const std::lock_guard lock(directory().mutex);
    std::erase(directory().ports, this);
    throw Error(Status::transport, shown + ": DPDK's vhost cannot listen at " + path_ + ": " + said,
                "DRLNET_DPDK_LOG=1 prints what DPDK says.");
  });
}

VhostPort::~VhostPort() {
  Environment::get().run([this] { rte_vhost_driver_unregister(path_.c_str()); });
  const std::lock_guard lock(directory().mutex);
  std::erase(directory().ports, this);
}

// While DPDK handles a message, which may change anything, the rings are closed. False: the message
// before this one was refused, and half of it may have been done.
bool VhostPort::message_begins() {
  if (in_message_) return false;
  in_message_ = true;
  close_rings();
  return true;
}

// Not called when the message was refused.
void VhostPort::message_ends() {
  in_message_ = false;
  open_rings();
}

bool VhostPort::read_rings() {
  uint64_t features = 0;
  rte_vhost_memory* table = nullptr;
  if (rte_vhost_get_negotiated_features(device_, &features) != 0 ||
      (features & kNeeded) != kNeeded || rte_vhost_get_mem_table(device_, &table) != 0) {
    return false;
  }
  const std::unique_ptr<rte_vhost_memory, decltype(&std::free)> owned(table, &std::free);
  std::vector<SharedMemory::Region> regions;
  for (const auto& region : std::span(table->regions, table->nregions)) {
    regions.push_back(
        {region.guest_phys_addr, region.size, reinterpret_cast<std::byte*>(region.host_user_addr)});
  }
  memory_ = SharedMemory(std::move(regions));
  for (const Ring ring : {kToDriver, kFromDriver}) {
    rte_vhost_vring vring{};
    uint16_t next = 0, used = 0;
    if (rte_vhost_get_vhost_vring(device_, ring, &vring) != 0 ||
        rte_vhost_get_vring_base(device_, ring, &next, &used) != 0 ||
        !memory_.holds(vring.device_event, sizeof(Notifications)) ||
        reinterpret_cast<uintptr_t>(vring.device_event) % alignof(Notifications) != 0) {
      return false;
    }
    // We are not to be told of buffers: the link has a doorbell of its own.
    std::atomic_ref(reinterpret_cast<Notifications*>(vring.device_event)->flags)
        .store(Notifications::kDisabled, std::memory_order_relaxed);
    const std::span descriptors(reinterpret_cast<link::PackedDescriptor*>(vring.desc_packed),
                                vring.size);
    rings_[ring] = PackedRing(
        ring == kToDriver ? PackedRing::Direction::to_driver : PackedRing::Direction::from_driver,
        descriptors, next, memory_);
  }
  return true;
}

// The driver may have sent before: DPDK lets it run first and tells us then. A reader that has
// looked meanwhile found nothing, and waits: for those frames its doorbell does not ring again.
void VhostPort::open_rings() {
  if (!running_ || in_message_ || !ready_[kToDriver] || !ready_[kFromDriver]) return;
  {
    const Guard guard(taken_);
    if (!read_rings()) rings_ = {};
    up_ = rings_[kToDriver].open() && rings_[kFromDriver].open();
  }
  reader_.wake();  // it looks at once: not while we have the turn
}

// DPDK knows from now on where we are.
void VhostPort::close_rings() {
  const Guard guard(taken_);
  for (const Ring ring : {kToDriver, kFromDriver}) {
    if (!rings_[ring].open()) continue;
    rings_[ring].tell();
    const uint16_t position = rings_[ring].position();
    rte_vhost_set_vring_base(device_, ring, position, position);
  }
  rings_ = {};
  memory_ = {};
  up_ = false;
}

size_t VhostPort::receive(uint16_t, std::span<rte_mbuf*> packets) {
  if (taken_.test_and_set(std::memory_order_acquire)) return 0;
  PackedRing& ring = rings_[kFromDriver];
  size_t received = 0;
  for (; received < packets.size(); ++received) {
    const std::span<std::byte> buffer = ring.front();
    if (buffer.empty()) break;
    rte_mbuf* const packet = rte_pktmbuf_alloc(pool_.get());
    if (packet == nullptr) break;
    if (buffer.size() <= sizeof(Header) ||
        buffer.size() - sizeof(Header) > rte_pktmbuf_tailroom(packet)) {
      rte_pktmbuf_free(packet);
      ring.give_up();
      break;
    }
    const std::span<std::byte> frame = buffer.subspan(sizeof(Header));
    std::memcpy(rte_pktmbuf_mtod(packet, std::byte*), frame.data(), frame.size());
    packet->data_len = static_cast<uint16_t>(frame.size());
    packet->pkt_len = static_cast<uint32_t>(frame.size());
    packets[received] = packet;
    ring.pop();
  }
  taken_.clear(std::memory_order_release);
  return received;
}

size_t VhostPort::send(uint16_t, std::span<rte_mbuf*> packets) {
  if (taken_.test_and_set(std::memory_order_acquire)) return 0;
  PackedRing& ring = rings_[kToDriver];
  const bool timed = !packets.empty() && packets[0]->next != nullptr;
  const uint64_t begin = timed ? now_ns() : 0;
  size_t sent = 0, lent_bytes = 0;
  for (; sent < packets.size(); ++sent) {
    const rte_mbuf* const packet = packets[sent];
    const std::span<std::byte> buffer = ring.front();
    if (buffer.empty()) break;
    if (buffer.size() < sizeof(Header) + packet->pkt_len) {
      ring.give_up();
      break;
    }
    std::memcpy(buffer.data(), &kHeader, sizeof kHeader);
    std::byte* to = buffer.data() + sizeof kHeader;
    std::memcpy(to, rte_pktmbuf_mtod(packet, const std::byte*), packet->data_len);
    const bool lent = packet->next != nullptr;
    if (lent) lent_bytes += packet->pkt_len;
    for (const rte_mbuf* part = packet; part->next != nullptr; part = part->next) {
      to += part->data_len;
      copy_bytes(to, rte_pktmbuf_mtod(part->next, const std::byte*), part->next->data_len,
                 choice_.streamed());
    }
    ring.push(static_cast<uint32_t>(sizeof(Header)) + packet->pkt_len, lent && choice_.streamed());
  }
  if (timed) choice_.copied(lent_bytes, now_ns() - begin);
  ring.tell();
  ring.fetch_to_write(kShortBytes);
  taken_.clear(std::memory_order_release);
  rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(sent));
  return sent;
}

std::byte* VhostPort::place(size_t most_bytes) {
  if (taken_.test_and_set(std::memory_order_acquire)) return nullptr;
  PackedRing& ring = rings_[kToDriver];
  const std::span<std::byte> buffer = ring.front();
  if (const size_t most = sizeof(Header) + most_bytes; buffer.size() >= most) {
    ring.fetch_to_write(choice_.streamed() ? std::min(most, kShortBytes) : most);
    return buffer.data() + sizeof(Header);
  }
  taken_.clear(std::memory_order_release);
  return nullptr;
}

void VhostPort::send_placed(std::byte* frame, size_t bytes, const Loans& loans) {
  for (const Loan& loan : loans.all())
    copy_bytes(loan.place, loan.from, loan.bytes, choice_.streamed());
  std::memcpy(frame - sizeof kHeader, &kHeader, sizeof kHeader);
  rings_[kToDriver].push(static_cast<uint32_t>(sizeof(Header) + bytes),
                         !loans.empty() && choice_.streamed());
  rings_[kToDriver].tell();
  rings_[kToDriver].fetch_to_write(kShortBytes);
  taken_.clear(std::memory_order_release);
}

}  // namespace drlnet::dpdk
