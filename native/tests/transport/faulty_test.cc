#include <algorithm>

#include "base/world.h"
#include "transport/variants.h"

namespace drlnet::test {
namespace {

// The tags of 300 frames in the order in which they arrive through one faulty line.
std::vector<size_t> schedule(const FaultPlan& plan, FaultCounts& counts) {
  const auto server = listen("memory:");
  Connected inner = connect(server->local_address());
  FaultyTransport client(std::move(inner.transport), plan, {});
  std::vector<size_t> order;
  for (size_t tag = 0; tag < 303; ++tag) {
    if (tag < 300) send_one(client, inner.server, tag, 1 + tag);
    client.recv_burst();
    for (const RxFrame& frame : server->recv_burst()) order.push_back(frame.data.size() - 1);
  }
  counts = client.outgoing();
  return order;
}

}  // namespace

TEST_CASE("the schedule of faults is its seed's, and its counts are true") {
  const FaultPlan plan{.drop = 0.1, .duplicate = 0.1, .reorder = 0.1, .delay_ns = 0, .seed = 5};
  FaultCounts counts, again;
  const auto order = schedule(plan, counts);
  CHECK(order == schedule(plan, again));
  CHECK(order.size() == 300 - counts.dropped + counts.duplicated);
  CHECK(order.size() == counts.passed);
  CHECK(counts.reordered > 0);
  FaultPlan other = plan;
  other.seed = 6;
  CHECK(order != schedule(other, again));
}

TEST_CASE("without faults nothing happens to a frame") {
  FaultCounts counts;
  const auto order = schedule({}, counts);
  REQUIRE(order.size() == 300);
  CHECK(std::ranges::is_sorted(order));
  CHECK(counts.dropped + counts.duplicated + counts.reordered == 0);
}

TEST_CASE("a delayed frame is not there before its time, and arm() says when that is") {
  constexpr uint64_t kDelayNs = 20'000'000;
  const auto server = listen("memory:");
  Connected inner = connect(server->local_address());
  FaultyTransport client(std::move(inner.transport), {.delay_ns = kDelayNs}, {});
  const uint64_t sent_ns = now_ns();
  send_one(client, inner.server, 1, 10);
  const WaitPoint point = client.arm();
  CHECK(point.fd == -1);
  CHECK(point.look_again_ns >= sent_ns + kDelayNs);
  size_t came = 0;
  while (came == 0 && now_ns() < sent_ns + kPatienceNs) {
    client.recv_burst();
    came = server->recv_burst().size();
  }
  CHECK(came == 1);
  CHECK(now_ns() >= sent_ns + kDelayNs);
  CHECK(client.arm().fd >= 0);
}

}  // namespace drlnet::test
