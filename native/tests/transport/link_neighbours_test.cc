#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "transport/link/neighbours.h"

namespace drlnet::link::test {
namespace {

IpAddress ip(uint32_t number) { return IpAddress::from_v4(0x0a000001 + number); }
MacAddress mac(uint32_t number) {
  return {{2, 0, 0, static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8),
           static_cast<uint8_t>(number)}};
}
constexpr uint64_t kSecondNs = 1'000'000'000;

}  // namespace

TEST_CASE("an unknown host is asked for, not too often, until it is heard of") {
  Neighbours neighbours;
  uint64_t now = 5 * kSecondNs;
  int asked = 0;
  for (int i = 0; i < 1000; ++i, now += Neighbours::kAskAgainNs / 100) {
    const auto [found, ask] = neighbours.find(ip(1), now);
    CHECK(found == nullptr);
    asked += ask;
  }
  CHECK(asked == 10);
  CHECK(neighbours.find(ip(2), now).ask);  // each address has a rate of its own
  neighbours.heard(ip(1), mac(1), now);
  const auto [found, ask] = neighbours.find(ip(1), now);
  REQUIRE(found != nullptr);
  CHECK(*found == mac(1));
  CHECK(!ask);
  CHECK(neighbours.size() == 2);
}

TEST_CASE("the first question is asked at whatever time the clock begins") {
  Neighbours neighbours;
  CHECK(neighbours.find(ip(1), 0).ask);
  CHECK(!neighbours.find(ip(1), 0).ask);
}

TEST_CASE("a host of which nothing was heard for long is asked for, and used meanwhile") {
  Neighbours neighbours;
  neighbours.heard(ip(1), mac(1), kSecondNs);
  CHECK(!neighbours.find(ip(1), kSecondNs + Neighbours::kStaleNs - 1).ask);
  const uint64_t stale = kSecondNs + Neighbours::kStaleNs;
  CHECK(neighbours.find(ip(1), stale).ask);
  const auto [used, again] = neighbours.find(ip(1), stale + 1);
  REQUIRE(used != nullptr);
  CHECK(*used == mac(1));
  CHECK(!again);
  CHECK(neighbours.find(ip(1), stale + Neighbours::kAskAgainNs).ask);
  neighbours.heard(ip(1), mac(7), stale + Neighbours::kAskAgainNs + 1);  // it has a new card
  const auto [found, ask] = neighbours.find(ip(1), stale + 2 * Neighbours::kAskAgainNs);
  CHECK(*found == mac(7));
  CHECK(!ask);
}

TEST_CASE("beyond the capacity the one heard of longest ago makes place") {
  Neighbours neighbours;
  constexpr uint32_t kCount = Neighbours::kCapacity;
  for (uint32_t i = 0; i < kCount; ++i) neighbours.heard(ip(i), mac(i), i);
  CHECK(neighbours.size() == kCount);
  neighbours.heard(ip(0), mac(0), kCount);  // no longer the oldest
  neighbours.heard(ip(kCount), mac(kCount), kCount + 1);
  CHECK(neighbours.size() == kCount);
  for (uint32_t i : {0u, 2u, 3u, kCount - 1, kCount}) {
    const auto [found, ask] = neighbours.find(ip(i), kCount + 2);
    REQUIRE(found != nullptr);
    CHECK(*found == mac(i));
  }
  // Two unknown hosts do not drive each other out, and so stay within the rate.
  CHECK(neighbours.find(ip(1), kCount + 3).ask);
  CHECK(neighbours.find(ip(kCount + 5), kCount + 3).ask);
  CHECK(!neighbours.find(ip(1), kCount + 4).ask);
  CHECK(!neighbours.find(ip(kCount + 5), kCount + 4).ask);
}

TEST_CASE("an address that no host can have is not learned") {
  Neighbours neighbours;
  neighbours.heard(IpAddress::from_v4(0), mac(1), 1);
  neighbours.heard(IpAddress{}, mac(1), 1);
  neighbours.heard(*IpAddress::parse("ff02::1"), mac(1), 1);
  neighbours.heard(ip(1), kBroadcast, 1);
  neighbours.heard(ip(1), MacAddress{}, 1);
  CHECK(neighbours.size() == 0);
}

TEST_CASE("any sequence leaves what a plain list would hold") {
  Neighbours neighbours;
  struct Entry {
    uint64_t order;
    uint32_t mac;
  };
  std::map<uint32_t, Entry> model;
  Random random(17);
  uint64_t order = 0;
  for (int step = 0; step < 40'000; ++step) {
    const auto host = static_cast<uint32_t>(random.below(2 * Neighbours::kCapacity));
    if (random.below(3) == 0 && model.contains(host)) {
      const auto [found, ask] = neighbours.find(ip(host), 1);
      REQUIRE(found != nullptr);
      REQUIRE(*found == mac(model[host].mac));
      continue;
    }
    if (model.size() == Neighbours::kCapacity && !model.contains(host)) {
      model.erase(std::min_element(model.begin(), model.end(), [](const auto& a, const auto& b) {
        return a.second.order < b.second.order;
      }));
    }
    model[host] = {order++, static_cast<uint32_t>(step)};
    neighbours.heard(ip(host), mac(static_cast<uint32_t>(step)), 1);
    REQUIRE(neighbours.size() == model.size());
  }
  for (const auto& [host, entry] : model) {
    const auto [found, ask] = neighbours.find(ip(host), 1);
    REQUIRE(found != nullptr);
    CHECK(*found == mac(entry.mac));
  }
  neighbours.forget_all();
  CHECK(neighbours.size() == 0);
  CHECK(neighbours.find(ip(model.begin()->first), 1).mac == nullptr);
}

}  // namespace drlnet::link::test
