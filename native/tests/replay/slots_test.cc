// Where rows lie, found for many at once.
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "replay/ring.h"
#include "replay/slot_bits.h"

namespace drlnet::test {
namespace {

TableSpec spec_of(uint64_t capacity) {
  TableSpec spec;
  spec.capacity = capacity;
  spec.columns = {{"x", DataType::u32, {}}};
  spec.item.views = {{"x", 0, 0, 0, Pad::repeat, Align::anchor}};
  return spec;
}

}  // namespace

TEST_CASE("slots found at once are those found one by one, and no number that is not stored") {
  constexpr uint64_t kBase = uint64_t{3} << 40;  // of keys
  Ring ring(spec_of(50));
  for (const uint64_t rows : {1u, 2u, 30u, 1000u, 40u, 1u, 700u, 374u, 1u, 3000u}) {
    ring.advance(rows % ring.size());
    std::vector<uint64_t> keys;
    std::vector<uint32_t> expected;
    for (uint64_t number = 0; number < ring.head(); ++number) {
      if (!ring.stored(number)) continue;
      keys.push_back(kBase + number);
      expected.push_back(ring.place(number).slot);
    }
    std::vector<uint32_t> slots(keys.size());
    CHECK(ring.slots_of(keys, kBase + ring.head(), slots));
    CHECK(slots == expected);
    const uint64_t oldest = keys.front(), newest = keys.back();
    for (const uint64_t strange :
         {newest + 1, newest + 2, oldest - 1, oldest - 2, uint64_t{0}, ~uint64_t{0},
          newest + (uint64_t{1} << 32), newest - (uint64_t{1} << 32), oldest - (uint64_t{1} << 40),
          newest + (uint64_t{1} << 56), newest + (uint64_t{1} << 31),
          newest - (uint64_t{1} << 31)}) {
      for (const size_t place : {size_t{0}, keys.size() / 2, keys.size() - 1}) {
        std::vector<uint64_t> some = keys;
        some[place] = strange;
        CHECK_FALSE(ring.slots_of(some, kBase + ring.head(), slots));
      }
    }
  }
}

TEST_CASE("bits of slots are set, tested together and reset one by one") {
  SlotBits bits(128);
  const std::array<uint32_t, 5> slots = {0, 63, 64, 127, 5};
  for (const uint32_t slot : slots) {
    CHECK_FALSE(bits.test_all(slots));
    bits.set(slot);
    CHECK(bits.test(slot));
  }
  CHECK(bits.test_all(slots));
  CHECK_FALSE(bits.test(1));
  for (const uint32_t slot : slots) {
    bits.reset(slot);
    CHECK_FALSE(bits.test(slot));
    CHECK_FALSE(bits.test_all(slots));
    bits.set(slot);
  }
  CHECK(bits.test_all({}));
}

}  // namespace drlnet::test
