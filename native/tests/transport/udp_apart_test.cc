// Frames that are to go apart are never joined by segmentation offload, beside others that are.
#include "transport/udp.h"
#include "transport/variants.h"
#include "transport/watching.h"

namespace drlnet::test {
namespace {

// Sends 12 frames, of which those named go apart; returns how many messages arrived, all checked.
uint64_t messages_for(Transport& sender, const Endpoint& to, WatchingTransport& receiver,
                      const std::vector<size_t>& apart) {
  constexpr size_t kCount = 12;
  const auto frames = sender.reserve(kCount);
  REQUIRE(frames.size() == kCount);
  for (size_t i = 0; i < kCount; ++i) {
    frames[i].to = to;
    frames[i].length = 1000;
    frames[i].apart = std::ranges::find(apart, i) != apart.end();
    fill({frames[i].data, 1000}, i);
  }
  const uint64_t before = receiver.joined() + receiver.single();
  REQUIRE(sender.send_burst(frames) == kCount);
  size_t next = 0;
  CHECK(receive(receiver, kCount, [&](const RxFrame& frame) {
          CHECK(frame.data.size() == 1000);
          CHECK(holds(frame.data, next++));
        }) == kCount);
  return receiver.joined() + receiver.single() - before;
}

}  // namespace

TEST_CASE("frames marked apart go as datagrams of their own; the others stay joined") {
  WatchingTransport receiver(false);
  const std::string rest = receiver.local_address().substr(std::strlen("udp://"));
  const Endpoint to = udp::to_endpoint(udp::resolve(rest)[0]);
  const auto client = udp::UdpTransport::connect(rest, {});
  const auto server = udp::UdpTransport::listen("127.0.0.1:0", {});
  for (Transport* sender :
       {static_cast<Transport*>(client.get()), static_cast<Transport*>(server.get())}) {
    CHECK(messages_for(*sender, to, receiver, {}) == 1);
    CHECK(messages_for(*sender, to, receiver, {0}) == 2);
    CHECK(messages_for(*sender, to, receiver, {5}) == 3);
    CHECK(messages_for(*sender, to, receiver, {5, 6, 11}) == 5);
    CHECK(messages_for(*sender, to, receiver, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) == 12);
    CHECK(messages_for(*sender, to, receiver, {}) == 1);  // it is not remembered
  }
}

}  // namespace drlnet::test
