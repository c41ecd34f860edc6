// The device's end of a packed virtqueue (virtio 1.1, 2.7), in memory that another process writes.
// What that process says is looked at once and checked: nothing outside the memory that it shares
// is ever named, and a ring that says what no driver of ours does is left alone from then on.
// The part of virtio that is used: buffers of one descriptor, used in order (VIRTIO_F_IN_ORDER).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace drlnet::link {

// What the driver shares: its addresses, and where they lie in this process.
class SharedMemory {
 public:
  struct Region {
    uint64_t address, bytes;
    std::byte* here;
  };
  SharedMemory() = default;
  explicit SharedMemory(std::vector<Region> regions) : regions_(std::move(regions)) {}

  // Null: not all of these bytes lie in one region.
  std::byte* find(uint64_t address, uint64_t bytes) const {
    for (const Region& region : regions_) {
      const uint64_t offset = address - region.address;  // huge where it lies before the region
      if (offset < region.bytes && bytes <= region.bytes - offset) return region.here + offset;
    }
    return nullptr;
  }
  // Whether they lie in it as addresses of this process.
  bool holds(const void* here, uint64_t bytes) const;

 private:
  std::vector<Region> regions_;
};

struct PackedDescriptor {
  uint64_t address;
  uint32_t length;
  uint16_t id, flags;
};
static_assert(sizeof(PackedDescriptor) == 16);

// Threading: one thread at a time.
class PackedRing {
 public:
  enum class Direction : uint8_t { from_driver, to_driver };
  // Buffers that are read, and that the driver may not have been told of. It has no use for few of
  // them, and each time a cache line that it writes to goes to and fro.
  static constexpr uint16_t kMostUntold = 16;
  // An index as virtio writes it: its highest bit says which time round it is.
  static constexpr uint16_t kTurn = 1 << 15;

  PackedRing() = default;  // one without buffers
  // The descriptors lie in `memory`, which outlives us.
  PackedRing(Direction direction, std::span<PackedDescriptor> descriptors, uint16_t position,
             const SharedMemory& memory);

  bool open() const { return !descriptors_.empty(); }
  uint16_t position() const { return static_cast<uint16_t>(next_ | (turn_ ? kTurn : 0)); }

  // The next buffer, empty when the driver has posted none. Its bytes may change at any time.
  std::span<std::byte> front() {
    if (!open()) return {};
    PackedDescriptor& descriptor = descriptors_[next_];
    const uint16_t flags = std::atomic_ref(descriptor.flags).load(std::memory_order_acquire);
    if (((flags & kAvailable) != 0) != turn_ || ((flags & kUsed) != 0) == turn_) return {};
    const auto address = std::atomic_ref(descriptor.address).load(std::memory_order_relaxed);
    const auto length = std::atomic_ref(descriptor.length).load(std::memory_order_relaxed);
    std::byte* const begin = memory_->find(address, length);
    const bool writable = direction_ == Direction::to_driver;
    if ((flags & (kMore | kWritable | kTable)) != (writable ? kWritable : 0) || begin == nullptr) {
      give_up();
      return {};
    }
    return {begin, length};
  }

  // Starts fetching that many bytes of the next buffer, to be written: the driver's core
  // has had them last.
  void fetch_to_write(uint64_t bytes) const;

  // In a ring from the driver: what front() gave has been read. The driver learns it by a cache
  // line, or by tell().
  void pop() {
    last_id_ = descriptors_[next_].id;
    ++untold_;
    advance();
    if (next_ % kMostUntold == 0) tell();
  }
  // In a ring to the driver: that many bytes were written into what front() gave. The driver sees
  // it with the others of its cache line, or by tell(). streamed: by streaming_copy(), some of
  // them.
  void push(uint32_t bytes, bool streamed = false);
  // Tells the driver of all that is used.
  void tell();

  void give_up() { descriptors_ = {}; }

 private:
  static constexpr uint16_t kMore = 1 << 0, kWritable = 1 << 1, kTable = 1 << 2,
                            kAvailable = 1 << 7, kUsed = 1 << 15;

  uint16_t used_flags(bool turn) const {
    return static_cast<uint16_t>((turn ? kAvailable | kUsed : 0) |
                                 (direction_ == Direction::to_driver ? kWritable : 0));
  }
  void advance() {
    if (++next_ < descriptors_.size()) return;
    next_ = 0;
    turn_ = !turn_;
  }

  Direction direction_{};
  std::span<PackedDescriptor> descriptors_;
  const SharedMemory* memory_ = nullptr;
  uint16_t next_ = 0, untold_ = 0, last_id_ = 0;
  uint16_t first_untold_ = 0;
  bool turn_ = true, first_untold_turn_ = true;
  bool streamed_ = false;  // what the driver has not been told of
};

}  // namespace drlnet::link
