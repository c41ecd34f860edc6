// A packed virtqueue's device end beside a driver that is good, and one that is not.
#include "transport/link/packed_ring.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/random.h"

namespace drlnet::link {
namespace {

using Direction = PackedRing::Direction;

constexpr uint16_t kNext = 1 << 0, kWritable = 1 << 1, kIndirect = 1 << 2, kAvailable = 1 << 7,
                   kUsed = 1 << 15;
constexpr uint64_t kAddress = 0x7f00'0000'1000;
constexpr uint16_t kDescriptors = 64;
constexpr size_t kBufferBytes = 128;

// The driver's side, in memory that ends where its allocation ends.
struct Driver {
  explicit Driver(Direction direction_)
      : direction(direction_), bytes(kBytes), memory({{kAddress, kBytes, bytes.data()}}) {
    std::ranges::fill(bytes, std::byte{0});
    ring = PackedRing(direction, descriptors(), PackedRing::kTurn, memory);
    REQUIRE(ring.open());
  }

  std::span<PackedDescriptor> descriptors() {
    return {reinterpret_cast<PackedDescriptor*>(bytes.data()), kDescriptors};
  }
  static uint64_t address_of(uint16_t index) {
    return kAddress + sizeof(PackedDescriptor) * kDescriptors + index * kBufferBytes;
  }
  std::byte* buffer(uint16_t index) { return bytes.data() + (address_of(index) - kAddress); }
  uint16_t flags_of_good() const { return direction == Direction::to_driver ? kWritable : 0; }

  void post(uint64_t address, uint32_t length, uint16_t flags) {
    PackedDescriptor& next = descriptors()[index];
    next.address = address;
    next.length = length;
    next.id = index;
    next.flags = static_cast<uint16_t>(flags | (turn ? kAvailable : kUsed));
    if (++index == kDescriptors) {
      index = 0;
      turn = !turn;
    }
  }
  void post() { post(address_of(index), kBufferBytes, flags_of_good()); }

  // What was used since: how many buffers, as a driver that uses them in order counts.
  size_t take_back() {
    size_t count = 0;
    for (;;) {
      const PackedDescriptor& used = descriptors()[first];
      if (((used.flags & kAvailable) != 0) != first_turn ||
          ((used.flags & kUsed) != 0) != first_turn) {
        return count;
      }
      for (const uint16_t last = used.id;;) {
        ++count;
        const uint16_t taken = first;
        if (++first == kDescriptors) {
          first = 0;
          first_turn = !first_turn;
        }
        if (taken == last) break;
      }
    }
  }

  static constexpr size_t kBytes = kDescriptors * (sizeof(PackedDescriptor) + kBufferBytes);
  Direction direction;
  std::vector<std::byte> bytes;
  SharedMemory memory;
  PackedRing ring;
  uint16_t index = 0, first = 0;
  bool turn = true, first_turn = true;
};

TEST_CASE("buffers from the driver come in order, and go back in batches") {
  Driver driver(Direction::from_driver);
  Random rng(7);
  uint8_t posted = 0, read = 0;
  size_t outstanding = 0;
  for (int round = 0; round < 500; ++round) {
    const size_t free = kDescriptors - outstanding;
    for (size_t i = rng.below(free + 1); i > 0; --i, ++outstanding) {
      driver.buffer(driver.index)[0] = std::byte{posted++};
      driver.post();
    }
    for (auto buffer = driver.ring.front(); !buffer.empty(); buffer = driver.ring.front()) {
      REQUIRE(buffer.size() == kBufferBytes);
      REQUIRE(buffer[0] == std::byte{read++});
      driver.ring.pop();
    }
    REQUIRE(read == posted);
    outstanding -= driver.take_back();
    REQUIRE(outstanding < PackedRing::kMostUntold);
  }
  driver.ring.tell();
  CHECK(driver.take_back() == outstanding);
  CHECK(driver.ring.open());
}

TEST_CASE("buffers to the driver are shown when they are told of") {
  Driver driver(Direction::to_driver);
  Random rng(8);
  uint8_t written = 0, read = 0;
  for (uint16_t i = 0; i < kDescriptors; ++i) driver.post();
  for (int round = 0; round < 500; ++round) {
    const size_t burst = rng.below(kDescriptors + 1);
    for (size_t i = 0; i < burst; ++i) {
      const auto buffer = driver.ring.front();
      REQUIRE(buffer.size() == kBufferBytes);
      buffer[0] = std::byte{written++};
      driver.ring.push(1 + static_cast<uint32_t>(i));
    }
    driver.ring.tell();
    const uint16_t begin = driver.first;
    REQUIRE(driver.take_back() == burst);
    for (size_t i = 0; i < burst; ++i) {
      const auto at = static_cast<uint16_t>((begin + i) % kDescriptors);
      REQUIRE(driver.descriptors()[at].length == 1 + i);
      REQUIRE(driver.buffer(at)[0] == std::byte{read++});
      driver.post();
    }
  }
}

TEST_CASE("a ring goes on where it stopped") {
  Driver driver(Direction::from_driver);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 41; ++i) {
      driver.post();
      REQUIRE_FALSE(driver.ring.front().empty());
      driver.ring.pop();
    }
    driver.ring.tell();
    REQUIRE(driver.take_back() == 41);
    driver.ring =
        PackedRing(driver.direction, driver.descriptors(), driver.ring.position(), driver.memory);
    REQUIRE(driver.ring.front().empty());
  }
}

TEST_CASE("a driver that names what is not its own is left alone from then on") {
  for (const Direction direction : {Direction::from_driver, Direction::to_driver}) {
    const uint16_t good = direction == Direction::to_driver ? kWritable : 0;
    const uint64_t end = kAddress + Driver::kBytes;
    constexpr uint32_t kHuge = std::numeric_limits<uint32_t>::max();
    struct {
      uint64_t address;
      uint32_t length;
      uint16_t flags;
    } const wrong[] = {
        {0, 64, good},
        {kAddress - 1, 64, good},
        {kAddress, Driver::kBytes + 1, good},
        {kAddress, kHuge, good},
        {end - 63, 64, good},
        {end, 1, good},
        {~uint64_t{0}, 64, good},
        {~uint64_t{0} - 63, 64, good},
        {kAddress, 64, static_cast<uint16_t>(good ^ kWritable)},
        {kAddress, 64, static_cast<uint16_t>(good | kNext)},
        {kAddress, 64, static_cast<uint16_t>(good | kIndirect)},
    };
    for (const auto& bad : wrong) {
      Driver driver(direction);
      driver.post();
      driver.post(bad.address, bad.length, bad.flags);
      REQUIRE(driver.ring.front().size() == kBufferBytes);
      direction == Direction::to_driver ? driver.ring.push(1) : driver.ring.pop();
      driver.ring.fetch_to_write(3 * 64);
      CHECK(driver.ring.front().empty());
      CHECK_FALSE(driver.ring.open());
      driver.descriptors()[1].address = Driver::address_of(1);
      driver.descriptors()[1].length = kBufferBytes;
      CHECK(driver.ring.front().empty());
      driver.ring.tell();
      driver.ring.fetch_to_write(3 * 64);
    }
  }
}

TEST_CASE("flags of another time round are not buffers, and neither are ids looked at") {
  Driver driver(Direction::from_driver);
  for (const uint16_t flags : {kUsed, static_cast<uint16_t>(kAvailable | kUsed), uint16_t{0}}) {
    driver.descriptors()[0].flags = flags;
    CHECK(driver.ring.front().empty());
    CHECK(driver.ring.open());
  }
  for (int i = 0; i < 3 * kDescriptors; ++i) {
    const uint16_t at = driver.index;
    driver.post();
    driver.descriptors()[at].id = 0xffff;
    REQUIRE_FALSE(driver.ring.front().empty());
    driver.ring.pop();
  }
  CHECK(driver.ring.open());
}

TEST_CASE("descriptors outside the memory, and positions outside the ring, make no ring") {
  Driver driver(Direction::from_driver);
  std::vector<PackedDescriptor> elsewhere(kDescriptors);
  const auto here = driver.descriptors();
  const auto open = [&](std::span<PackedDescriptor> descriptors, uint16_t position) {
    return PackedRing(driver.direction, descriptors, position, driver.memory).open();
  };
  CHECK(open(here, 0));
  CHECK(open(here, kDescriptors - 1));
  CHECK_FALSE(open(here, kDescriptors));
  CHECK_FALSE(open(here, PackedRing::kTurn | kDescriptors));
  CHECK_FALSE(open(here.first(0), 0));
  CHECK_FALSE(open(elsewhere, 0));
  CHECK_FALSE(open(std::span(static_cast<PackedDescriptor*>(nullptr), kDescriptors), 0));
  CHECK_FALSE(open(std::span(here.data(), Driver::kBytes / sizeof(PackedDescriptor) + 1), 0));
  CHECK_FALSE(open(std::span(here.data() - 1, kDescriptors), 0));
  auto* const askew = reinterpret_cast<PackedDescriptor*>(driver.bytes.data() + 4);
  CHECK_FALSE(open(std::span(askew, kDescriptors), 0));
  CHECK(PackedRing().front().empty());
}

}  // namespace
}  // namespace drlnet::link
