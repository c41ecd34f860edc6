#include "measure/udp_transfer.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "base/error.h"

namespace drlnet::measure {
namespace {

TEST_CASE("a bare transfer brings all bytes in their order") {
  for (const Poll poll : {Poll::busy, Poll::block}) {
    UdpSender sender(poll);
    uint64_t sent = 0;
    std::jthread sending([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) sent += sender.serve(10'000'000);
    });
    UdpReceiver receiver(sender.port(), poll);
    std::vector<uint64_t> latencies(2);
    uint64_t expected = 0;
    // Less than a frame, than a message, than the window; more than the window.
    for (const uint64_t bytes : {100, 20'000, 300'000, 12'345'678}) {
      const size_t count = receiver.transfers(bytes, {latencies, 1'000'000'000});
      REQUIRE(count > 0);
      expected += count * bytes;
      const auto received = receiver.received().first(bytes);
      uint64_t in_order = 0;
      while (in_order < bytes && received[in_order] == static_cast<std::byte>(in_order % 251)) {
        ++in_order;
      }
      CHECK(in_order == bytes);
    }
    sending.request_stop();
    sending.join();
    CHECK(sent == expected);
  }
}

TEST_CASE("a transfer that nobody answers gives up") {
  const UdpSender silent(Poll::block);
  UdpReceiver receiver(silent.port(), Poll::block);
  std::vector<uint64_t> latencies(1);
  CHECK_THROWS_AS(receiver.transfers(1000, {latencies, 1'000'000}), Error);
}

}  // namespace
}  // namespace drlnet::measure
