#include "transport/variants.h"

namespace drlnet::test {

TEST_CASE("a listener can leave and come back under its clients") {
  auto server = listen("memory:returning");
  Connected client = connect("memory:returning");
  server.reset();
  send_one(*client.transport, client.server, 1, 10);
  CHECK(client.transport->counters().refused == 1);
  server = listen("memory:returning");
  send_one(*client.transport, client.server, 2, 10);
  CHECK(receive(*server, 1, [](const RxFrame& frame) { CHECK(holds(frame.data, 2)); }) == 1);
}

TEST_CASE("frames to a client that is gone are lost, and others still arrive") {
  const auto server = listen("memory:");
  Connected gone = connect(server->local_address());
  const Connected stays = connect(server->local_address());
  std::vector<Endpoint> from;
  const auto remember = [&](const RxFrame& frame) { from.push_back(frame.from); };
  send_one(*gone.transport, gone.server, 1, 10);
  send_one(*stays.transport, stays.server, 1, 10);
  REQUIRE(receive(*server, 2, remember) == 2);
  gone.transport.reset();
  send_one(*server, from[0], 3, 10);
  send_one(*server, from[1], 4, 10);
  CHECK(receive(*stays.transport, 1, [](const RxFrame& f) { CHECK(holds(f.data, 4)); }) == 1);
}

TEST_CASE("the in-memory transport is reliable until a queue overflows") {
  const auto server = listen("memory:");
  const Connected client = connect(server->local_address());
  const size_t room = server->receive_capacity_bytes() / kMinFrameCharge;
  for (size_t i = 0; i < room; ++i) send_one(*client.transport, client.server, i, 10);
  CHECK(server->reliable());
  send_one(*client.transport, client.server, room, 10);
  CHECK_FALSE(server->reliable());
  CHECK_FALSE(client.transport->reliable());
  CHECK(server->counters().receive_overflow == 1);
}

}  // namespace drlnet::test
