#include "measure/bulk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/error.h"

namespace drlnet::measure {
namespace {

TEST_CASE("a bare transfer brings all bytes in their order") {
  for (const Poll poll : {Poll::busy, Poll::block}) {
    BulkSender sender(poll);
    uint64_t sent = 0;
    std::thread sending([&] { sent = sender.serve(500'000'000); });
    BulkReceiver receiver(sender.port(), poll);
    std::vector<uint64_t> latencies(2);
    uint64_t expected = 0;
    // Less than a frame, than a message, than the window; more than the window.
    for (const uint64_t bytes : {100, 20'000, 300'000, 12'345'678}) {
      const size_t count = receiver.transfers(bytes, {latencies, 100'000'000});
      REQUIRE(count > 0);
      expected += count * bytes;
      for (uint64_t i = 0; i < bytes; ++i) {
        REQUIRE(receiver.received()[i] == static_cast<std::byte>(i % 251));
      }
    }
    sending.join();
    CHECK(sent == expected);
  }
}

TEST_CASE("a transfer that nobody answers gives up") {
  const BulkSender silent(Poll::block);
  BulkReceiver receiver(silent.port(), Poll::block);
  std::vector<uint64_t> latencies(1);
  CHECK_THROWS_AS(receiver.transfers(1000, {latencies, 1'000'000}), Error);
}

}  // namespace
}  // namespace drlnet::measure
