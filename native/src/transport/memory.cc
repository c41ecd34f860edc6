#include "transport/memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "base/assert.h"
#include "base/error.h"
#include "base/wake_fd.h"

namespace drlnet::memory {
namespace {

constexpr size_t kQueueFrames = 2048;
constexpr size_t kBurstFrames = 64;
constexpr uint64_t kServerId = 0;

// kJumboFrameBytes each, in one allocation whose pages stay untouched until they are needed.
class FrameArena {
 public:
  explicit FrameArena(size_t count)
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(count * kJumboFrameBytes)) {}
  std::byte* at(size_t index) { return bytes_.get() + index * kJumboFrameBytes; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

Endpoint endpoint_of(uint64_t id) {
  Endpoint endpoint;
  std::memcpy(endpoint.bytes.data(), &id, sizeof id);
  return endpoint;
}

uint64_t id_of(const Endpoint& endpoint) {
  uint64_t id;
  std::memcpy(&id, endpoint.bytes.data(), sizeof id);
  return id;
}

// What has arrived at one endpoint. Guarded by the hub's mutex, except the bytes of frames lent to
// the receiver, which alone touches them.
class Mailbox {
 public:
  Mailbox() : arena_(kArenaFrames) {
    // A stack: the frame freed last is the one still in the cache.
    for (size_t i = kArenaFrames; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
    lent_.reserve(kBurstFrames);
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  bool push(uint64_t from, std::span<const std::byte> data) {
    if (size_ == kQueueFrames) {
      ++overflow_;
      return false;
    }
    const uint32_t frame = free_.back();
    free_.pop_back();
    std::memcpy(arena_.at(frame), data.data(), data.size());
    ring_[(head_ + size_++) % kQueueFrames] = {from, frame, static_cast<uint32_t>(data.size())};
    if (armed_) wake();
    return true;
  }

  size_t lend(std::span<RxFrame> frames) {
    armed_ = false;  // a thread that looks does not sleep
    free_.insert(free_.end(), lent_.begin(), lent_.end());
    lent_.clear();
    while (size_ > 0 && lent_.size() < frames.size()) {
      const Entry& entry = ring_[head_];
      frames[lent_.size()] = {endpoint_of(entry.from), {arena_.at(entry.frame), entry.length}};
      lent_.push_back(entry.frame);
      head_ = (head_ + 1) % kQueueFrames;
      --size_;
    }
    return lent_.size();
  }

  int arm() {
    wake_fd_.clear();
    armed_ = true;
    if (size_ > 0) wake();
    return wake_fd_.fd();
  }

  uint64_t overflow() const { return overflow_; }

 private:
  static constexpr size_t kArenaFrames = kQueueFrames + kBurstFrames;  // queued, and lent

  struct Entry {
    uint64_t from;
    uint32_t frame;
    uint32_t length;
  };

  void wake() {
    armed_ = false;
    wake_fd_.wake();
  }

  FrameArena arena_;
  std::array<Entry, kQueueFrames> ring_;
  size_t head_ = 0, size_ = 0;
  std::vector<uint32_t> free_, lent_;
  bool armed_ = false;
  uint64_t overflow_ = 0;
  WakeFd wake_fd_;
};

struct Hub {
  explicit Hub(std::string hub_name) : name(std::move(hub_name)) {}
  const std::string name;
  std::mutex mutex;
  std::map<uint64_t, Mailbox*> mailboxes;
  std::atomic<uint64_t> last_id{kServerId};
  std::atomic<bool> overflowed{false};
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<Hub> hub, uint64_t id)
      : arena_(kBurstFrames), hub_(std::move(hub)), id_(id) {
    for (size_t i = 0; i < kBurstFrames; ++i) tx_frames_[i].data = arena_.at(i);
    const std::lock_guard lock(hub_->mutex);
    if (!hub_->mailboxes.emplace(id_, &mailbox_).second) {
      throw Error(Status::transport, local_address() + " is in use in this process",
                  "Choose another name, or \"memory:\" for a fresh one.");
    }
  }

  ~MemoryTransport() override {
    const std::lock_guard lock(hub_->mutex);
    hub_->mailboxes.erase(id_);
  }

  std::span<TxFrame> reserve(size_t count) override {
    return std::span(tx_frames_).first(std::min(count, kBurstFrames));
  }

  // Never partial: a full queue drops, as a network would, or a dead client's queue would stop the
  // server.
  size_t send_burst(std::span<const TxFrame> frames) override {
    const std::lock_guard lock(hub_->mutex);
    for (const TxFrame& frame : frames) {
      DRLNET_ASSERT(frame.length > 0 && frame.length <= kJumboFrameBytes);
      frame.loans.copy_out();
      const auto to = hub_->mailboxes.find(id_of(frame.to));
      if (to == hub_->mailboxes.end()) {
        ++refused_;
      } else if (!to->second->push(id_, {frame.data, frame.length})) {
        hub_->overflowed.store(true, std::memory_order_relaxed);
      }
    }
    return frames.size();
  }

  std::span<const RxFrame> recv_burst() override {
    const std::lock_guard lock(hub_->mutex);
    return std::span(rx_frames_).first(mailbox_.lend(rx_frames_));
  }

  WaitPoint arm() override {
    const std::lock_guard lock(hub_->mutex);
    return {mailbox_.arm(), 0};
  }

  size_t mtu(const Endpoint&) override { return kJumboFrameBytes; }
  bool reliable() const override { return !hub_->overflowed.load(std::memory_order_relaxed); }
  bool may_alter_bytes() const override { return false; }
  size_t receive_capacity_bytes() const override { return kQueueFrames * kMinFrameCharge; }
  std::string local_address() const override { return "memory:" + hub_->name; }
  std::string describe(const Endpoint& endpoint) const override {
    const uint64_t id = id_of(endpoint);
    std::string text = local_address();
    if (id != kServerId) text.append("/").append(std::to_string(id));
    return text;
  }
  std::string_view kind() const override { return "memory"; }
  TransportCounters counters() const override {
    const std::lock_guard lock(hub_->mutex);
    return {.refused = refused_, .receive_overflow = mailbox_.overflow()};
  }

 private:
  FrameArena arena_;
  std::array<TxFrame, kBurstFrames> tx_frames_;
  std::array<RxFrame, kBurstFrames> rx_frames_;
  Mailbox mailbox_;
  std::shared_ptr<Hub> hub_;
  uint64_t id_;
  uint64_t refused_ = 0;
};

// The hubs of this process by name. A hub lives as long as an endpoint of it, so that a listener
// can go and come back under its clients.
class HubDirectory {
 public:
  static HubDirectory& instance() {
    static HubDirectory directory;
    return directory;
  }

  std::shared_ptr<Hub> find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = hubs_.find(name);
    return found == hubs_.end() ? nullptr : found->second.lock();
  }

  std::shared_ptr<Hub> find_or_create(std::string name) {
    const std::lock_guard lock(mutex_);
    while (name.empty()) {
      const std::string fresh = std::to_string(++counter_);
      if (hubs_[fresh].expired()) name = fresh;
    }
    auto hub = hubs_[name].lock();
    if (!hub) hubs_[name] = hub = std::make_shared<Hub>(name);
    return hub;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Hub>> hubs_;
  uint64_t counter_ = 0;
};

}  // namespace

std::unique_ptr<Transport> listen(const std::string& name, uint32_t) {
  return std::make_unique<MemoryTransport>(HubDirectory::instance().find_or_create(name),
                                           kServerId);
}

Connected connect(const std::string& name) {
  const auto hub = HubDirectory::instance().find(name);
  if (!hub) {
    throw Error(Status::transport, "nothing listens at memory:" + name + " in this process",
                "Pass the address that the server reports; other processes are reached by udp.");
  }
  return {std::make_unique<MemoryTransport>(hub, ++hub->last_id), endpoint_of(kServerId)};
}

bool is_loopback(const std::string&) { return true; }

std::string at(const std::string&, const std::string& host, uint16_t port) {
  return "udp://" + host + ":" + std::to_string(port);
}
std::string shard(const std::string& name, uint32_t shard) {
  return name + "-shard" + std::to_string(shard);
}

}  // namespace drlnet::memory
