#include "measure/udp_transfer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace drlnet::measure {
namespace {

// It raises by itself where bytes are missing, or are not those that were sent.
TEST_CASE("a bare transfer brings all bytes in their order, spinning and asleep") {
  for (const Poll poll : {Poll::busy, Poll::block}) {
    std::vector<uint64_t> latencies(2);
    // Less than a frame, than a message, than the window; more than the window.
    for (const uint64_t bytes : {100, 20'000, 300'000, 12'345'678}) {
      CAPTURE(bytes);
      REQUIRE(udp_transfers(std::nullopt, poll, bytes, {latencies, 60'000'000'000}) == 2);
      CHECK(std::ranges::min(latencies) > 0);
    }
    CHECK(udp_transfers(0, poll, 100, {latencies, 0}) == 0);
  }
}

}  // namespace
}  // namespace drlnet::measure
