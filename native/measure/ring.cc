#include "measure/ring.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/error.h"
#include "base/world.h"

namespace drlnet::measure {
namespace {

constexpr uint64_t kAnswerNs = 1'000'000'000;
constexpr uint32_t kSpinsPerClock = 4096;  // reading the clock at each would slow the loop down

}  // namespace

// Not inlined: looks that follow each other faster disturb the other side's writing, by a tenth of
// a round trip.
[[gnu::noinline]] bool Ring::push(std::span<const std::byte> message) {
  DRLNET_ASSERT(message.size() <= kMaxBytes);
  const uint64_t head = head_.load(std::memory_order_relaxed);
  if (head - tail_.load(std::memory_order_acquire) == kSlots) return false;
  Slot& slot = slots_[head % kSlots];
  slot.length = static_cast<uint32_t>(message.size());
  std::ranges::copy(message, slot.bytes.begin());  // an empty one may be of no memory
  head_.store(head + 1, std::memory_order_release);
  return true;
}

[[gnu::noinline]] bool Ring::pop(std::span<std::byte> out, size_t& length) {
  const uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (head_.load(std::memory_order_acquire) == tail) return false;
  const Slot& slot = slots_[tail % kSlots];
  DRLNET_ASSERT(slot.length <= out.size());
  length = slot.length;
  std::ranges::copy(std::span(slot.bytes).first(length), out.begin());
  tail_.store(tail + 1, std::memory_order_release);
  return true;
}

RingPair::RingPair(int fd) {
  void* address = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    throw Error(Status::transport,
                std::string("mapping a shared-memory ring: ") + std::strerror(errno),
                "give it a memory file that can be read and written");
  }
  shared_ = static_cast<Shared*>(address);  // zeros are an empty ring
}

RingPair::~RingPair() { munmap(shared_, sizeof(Shared)); }

size_t RingPair::file_bytes() { return sizeof(Shared); }

size_t RingPair::echo(uint64_t for_ns) {
  std::array<std::byte, Ring::kMaxBytes> message;
  const uint64_t end = now_ns() + for_ns;
  size_t count = 0;
  for (uint32_t spins = 1;; ++spins) {
    size_t length = 0;
    if (shared_->there.pop(message, length)) {
      while (!shared_->back.push(std::span(message).first(length))) spin_pause();
      ++count;
    } else {
      spin_pause();
    }
    if (spins % kSpinsPerClock == 0 && now_ns() >= end) return count;
  }
}

size_t RingPair::pings(size_t payload_bytes, const Loop& loop) {
  DRLNET_ASSERT(payload_bytes > 0 && payload_bytes <= Ring::kMaxBytes);
  std::vector<std::byte> sent(payload_bytes), answer(Ring::kMaxBytes);
  const uint64_t end = now_ns() + loop.budget_ns;
  for (size_t count = 0; count < loop.latencies_ns.size(); ++count) {
    std::ranges::fill(sent, static_cast<std::byte>(count));
    size_t length = 0;
    const uint64_t before = now_ns();
    if (before >= end) return count;
    while (!shared_->there.push(sent)) spin_pause();
    for (uint32_t spins = 1; !shared_->back.pop(answer, length); ++spins) {
      spin_pause();
      if (spins % kSpinsPerClock == 0 && now_ns() > before + kAnswerNs) {
        throw Error(Status::transport, "the other side of a shared-memory ring does not answer",
                    "see that its process still runs");
      }
    }
    loop.latencies_ns[count] = now_ns() - before;
    if (!std::ranges::equal(sent, std::span(answer).first(length))) {
      throw Error(Status::transport, "a shared-memory ring answered what was not sent",
                  "start both sides anew, with a memory file of their own");
    }
  }
  return loop.latencies_ns.size();
}

}  // namespace drlnet::measure
