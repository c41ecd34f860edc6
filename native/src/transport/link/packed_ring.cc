#include "transport/link/packed_ring.h"

#include <algorithm>

#include "base/prefetch.h"
#include "base/streaming_copy.h"

namespace drlnet::link {
namespace {

constexpr uint16_t kLineDescriptors = kLineBytes / sizeof(PackedDescriptor);

}  // namespace

bool SharedMemory::holds(const void* here, uint64_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(here);
  return std::ranges::any_of(regions_, [&](const Region& region) {
    const uint64_t offset = address - reinterpret_cast<uintptr_t>(region.here);
    return offset < region.bytes && bytes <= region.bytes - offset;
  });
}

PackedRing::PackedRing(Direction direction, std::span<PackedDescriptor> descriptors,
                       uint16_t position, const SharedMemory& memory)
    : direction_(direction),
      descriptors_(descriptors),
      memory_(&memory),
      next_(position & static_cast<uint16_t>(~kTurn)),
      first_untold_(next_),
      turn_((position & kTurn) != 0),
      first_untold_turn_(turn_) {
  const bool aligned =
      reinterpret_cast<uintptr_t>(descriptors_.data()) % alignof(PackedDescriptor) == 0;
  if (next_ >= descriptors_.size() || !aligned ||
      !memory.holds(descriptors_.data(), descriptors_.size_bytes())) {
    give_up();
  }
}

void PackedRing::fetch_to_write(uint64_t bytes) const {
  if (!open()) return;
  const uint64_t address =
      std::atomic_ref(descriptors_[next_].address).load(std::memory_order_relaxed);
  const std::byte* const begin = memory_->find(address, bytes);
  if (begin != nullptr) prefetch_to_write(begin, bytes);
}

void PackedRing::push(uint32_t bytes, bool streamed) {
  streamed_ |= streamed;
  PackedDescriptor& descriptor = descriptors_[next_];
  std::atomic_ref(descriptor.length).store(bytes, std::memory_order_relaxed);
  // The driver looks at them in turn: the first one shows it all.
  if (untold_ > 0) {
    std::atomic_ref(descriptor.flags).store(used_flags(turn_), std::memory_order_release);
  }
  ++untold_;
  advance();
  if (next_ % kLineDescriptors == 0) tell();
}

void PackedRing::tell() {
  if (untold_ == 0 || !open()) return;
  if (std::exchange(streamed_, false)) streaming_fence();
  PackedDescriptor& descriptor = descriptors_[first_untold_];
  if (direction_ == Direction::from_driver) {
    // Used in order, so that the last one's stands for those before it.
    std::atomic_ref(descriptor.id).store(last_id_, std::memory_order_relaxed);
  }
  std::atomic_ref(descriptor.flags)
      .store(used_flags(first_untold_turn_), std::memory_order_release);
  first_untold_ = next_;
  first_untold_turn_ = turn_;
  untold_ = 0;
}

}  // namespace drlnet::link
