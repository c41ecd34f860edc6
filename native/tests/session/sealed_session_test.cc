// Sessions with keys: that they work over a bad network, and what they keep out.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "session/bench.h"
#include "session/keys/pairs.h"
#include "transport/forwarding.h"
#include "wire/messages.h"

namespace drlnet::test {
namespace {

constexpr char kUdp[] = "udp://127.0.0.1:0";

uint64_t counter(const Sessions& sessions, const std::string& name) {
  Metrics metrics;
  sessions.read_metrics(metrics, 0);
  for (const auto& [known, value] : metrics.list()) {
    if (known == name) return std::get<uint64_t>(value);
  }
  FAIL("no figure ", name);
  return 0;
}

uint64_t clients(const Sessions& sessions) { return counter(sessions, "server.clients"); }

// Opens the sessions; each client asks for something, and counts from then on.
void open(Bench& bench) {
  bench.open();
  for (const auto& client : bench.clients) {
    const CallId id = client->submit(client->begin(Operation::ping));
    bench.run_until([&] { return client->done(id); });
    client->release(id);
  }
}

// Why the client's session did not come to be.
Error refusal(Bench& bench, const std::optional<ClientKey>& key) {
  bench.key = key;
  Connection& client = bench.add_client();
  bench.run_until([&] { return client.state() == Connection::State::lost; });
  const Error why = *client.failure();
  bench.clients.pop_back();
  return why;
}

// Frames as a stranger sends them, from an address of its own.
struct Stranger {
  Connected connected;
  size_t sent_bytes = 0, received_bytes = 0, received = 0;

  explicit Stranger(const Bench& bench) : connected(connect(bench.address)) {}
  void send(FrameHeader header, std::span<const std::byte> payload, bool sealed = false) {
    TxFrame& frame = connected.transport->reserve(1)[0];
    frame.to = connected.server;
    frame.apart = true;
    frame.loans.clear();
    write_header(frame.data, header);
    std::ranges::copy(payload, frame.data + kHeaderBytes);
    frame.length = static_cast<uint32_t>(kHeaderBytes + payload.size());
    if (!sealed) seal(frame);
    sent_bytes += frame.length;
    REQUIRE(connected.transport->send_burst({&frame, 1}) == 1);
  }
  void listen() {
    for (const RxFrame& frame : connected.transport->recv_burst()) {
      received_bytes += frame.data.size();
      ++received;
    }
  }
};

class Cheap final : public ForwardingTransport {
 public:
  Cheap() : ForwardingTransport(listen(kUdp)) {}
  bool bursts_are_cheap() const override { return true; }
};

FrameHeader hello_header() {
  FrameHeader header;
  header.kind = FrameKind::keyed_hello;
  header.frame_bytes = kMinFrameBytes;
  header.length = sizeof(KeyedHello);
  return header;
}

}  // namespace

TEST_CASE(
    "a session with keys carries all that one without does, over a network that loses, "
    "doubles and alters") {
  const Pairs pairs;
  for (const double fault : {0.0, 0.05}) {
    Bench bench(kUdp, fault, 31, fault, pairs.store(), pairs.key(Role::learner));
    open(bench);
    Connection& client = *bench.clients[0];
    std::vector<std::byte> memory(300'000);
    for (uint64_t id = 1; id <= 12; ++id) {
      const CallId sampled = order(client, id, memory);
      const CallId appended = append(client, id, id * 1000);
      bench.run_until([&] { return client.done(sampled) && client.done(appended); });
      CHECK(client.call(sampled).status == Status::ok);
      check_pattern(id, memory);
      CHECK(bench.handler.appended.back() == id);
      client.release(sampled);
      client.release(appended);
    }
    CHECK(bench.handler.appended.size() == 12);
    CHECK(clients(bench.sessions) == 1);
    CHECK(counter(bench.sessions, "server.sealed") == 1);
    if (fault > 0) CHECK(counter(bench.sessions, "server.drops.forged") > 0);
  }
}

TEST_CASE("a client without a key, with another server's or with an unknown one is told why") {
  const Pairs pairs, others(50);
  Bench bench(kUdp, 0, 1, 0, pairs.store(), pairs.key(Role::actor));
  open(bench);
  CHECK(refusal(bench, std::nullopt).cause() == "the server wants a key");
  const Error elsewhere = refusal(bench, others.key(Role::learner));
  CHECK(elsewhere.status() == Status::forbidden);
  CHECK(elsewhere.cause().find("for another server") != std::string::npos);
  const ClientKey unknown{secret_of(99), public_of(pairs.server)};
  CHECK(refusal(bench, unknown).cause() == "the server does not know this key");
  CHECK(clients(bench.sessions) == 1);
  CHECK(counter(bench.sessions, "server.handshakes_refused") >= 2);
  Bench open_to_all(kUdp, 0, 1);
  open(open_to_all);
  CHECK(refusal(open_to_all, pairs.key(Role::actor)).cause().find("the server has no keys") == 0);
}

TEST_CASE("each role may ask for what the table says, and nothing else") {
  const Pairs pairs;
  Bench bench(kUdp, 0, 1, 0, pairs.store(), pairs.key(Role::viewer));
  bench.key = pairs.key(Role::actor);
  bench.add_client();
  bench.key = pairs.key(Role::learner);
  bench.add_client();
  open(bench);
  uint64_t refused = 0;
  for (size_t role = 0; role < kRoles; ++role) {
    Connection& client = *bench.clients[role];
    for (size_t i = 0; i < kOperations; ++i) {
      const auto operation = static_cast<Operation>(i);
      if (operation == Operation::append || operation == Operation::sample) continue;
      const CallId id = client.submit(client.begin(operation));
      bench.run_until([&] { return client.done(id); });
      const bool may = static_cast<Role>(role) >= role_for(operation);
      CHECK((client.call(id).status == Status::ok) == may);
      if (!may) {
        ++refused;
        CHECK(client.call(id).status == Status::forbidden);
        std::string cause, remedy;
        REQUIRE(decode_error(client.call(id).result(), cause, remedy));
        CHECK(cause.starts_with(operation_name(operation)));
      }
      client.release(id);
    }
  }
  CHECK(refused > 20);
  CHECK(counter(bench.sessions, "server.rights_refused") == refused);
  for (const Operation operation :
       {Operation::update_priorities, Operation::publish, Operation::drop_table}) {
    CHECK(role_for(operation) == Role::learner);
  }
  CHECK(role_for(Operation::append) == Role::actor);
  CHECK(role_for(Operation::stats) == Role::viewer);
}

TEST_CASE(
    "frames of a session that come again, or from a client that does not seal, change nothing") {
  const Pairs pairs;
  // The network doubles every frame, and alters none.
  Bench bench(kUdp, 0, 1, 0, pairs.store(), pairs.key(Role::actor));
  const FaultPlan doubled{.duplicate = 1.0, .seed = 3};
  Connected connected = connect(bench.address);
  connected.transport =
      std::make_unique<FaultyTransport>(std::move(connected.transport), doubled, doubled);
  bench.clients.push_back(
      std::make_unique<Connection>(std::move(connected), "doubled", pairs.key(Role::actor)));
  open(bench);
  Connection& client = *bench.clients[1];
  for (uint64_t id = 1; id <= 20; ++id) {
    const CallId appended = append(client, id, 100);
    bench.run_until([&] { return client.done(appended); });
    client.release(appended);
  }
  CHECK(bench.handler.appended.size() == 20);
  bench.run_until([&] { return counter(bench.sessions, "server.drops.replayed") >= 20; });
  Metrics metrics;
  client.read_metrics(metrics, 0);
  CHECK(clients(bench.sessions) == 2);
}

TEST_CASE(
    "an address that has not proved itself is answered with fewer bytes, and costs no session") {
  const Pairs pairs;
  Bench bench(kUdp, 0, 1, 0, pairs.store(), pairs.key(Role::actor));
  open(bench);
  Stranger stranger(bench);
  KeyedHello hello;
  hello.key_id = key_id(public_of(pairs.server));
  for (unsigned i = 0; i < 200; ++i) {
    hello.message.fill(static_cast<std::byte>(i));
    hello.cookie.fill(static_cast<std::byte>(i / 2));
    stranger.send(hello_header(), std::as_bytes(std::span(&hello, 1)));
    FrameHeader request;
    request.kind = FrameKind::request;
    request.connection = i;
    request.packet_number = i;
    request.frame_bytes = kMinFrameBytes;
    request.kind = static_cast<FrameKind>(static_cast<uint8_t>(request.kind) | kSealedBit);
    stranger.send(request, {}, true);
    bench.run_until([&] {
      stranger.listen();
      return stranger.received == 2 * (i + 1);
    });
  }
  CHECK(stranger.received_bytes <= 3 * stranger.sent_bytes);
  CHECK(clients(bench.sessions) == 1);
  CHECK(counter(bench.sessions, "server.handshakes") == 1);
}

TEST_CASE("a client whose session the server has forgotten opens another, with new keys") {
  const Pairs pairs;
  Bench bench(kUdp, 0, 1, 0, pairs.store(), pairs.key(Role::actor));
  open(bench);
  Connection& client = *bench.clients[0];
  const CallId first = append(client, 1, 100);
  bench.run_until([&] { return client.done(first); });
  client.release(first);
  bench.sessions.expire(UINT64_MAX / 2);
  CHECK(clients(bench.sessions) == 0);
  const CallId second = append(client, 2, 100);
  bench.run_until([&] { return client.done(second); });
  CHECK(client.call(second).status == Status::ok);
  CHECK(bench.handler.appended == std::vector<uint64_t>{1, 2});
  CHECK(clients(bench.sessions) == 1);
}

TEST_CASE("while keys are replaced both are good, and the sessions of one that is gone end") {
  const Pairs former, next(50);
  const auto keys = former.store();
  Bench bench(kUdp, 0, 1, 0, keys, former.key(Role::actor));
  open(bench);
  keys->set({next.identity(), former.identity()});
  bench.sessions.expire(0);
  bench.key = next.key(Role::actor);
  bench.add_client();
  bench.key = former.key(Role::learner);
  bench.add_client();
  open(bench);
  CHECK(clients(bench.sessions) == 3);
  keys->set({next.identity()});
  bench.sessions.expire(0);
  CHECK(clients(bench.sessions) == 1);
  CHECK(refusal(bench, former.key(Role::actor)).status() == Status::forbidden);
  CHECK_THROWS_AS(keys->set({}), Error);
  CHECK_THROWS_AS(keys->set({next.identity(), former.identity(), next.identity()}), Error);
}

TEST_CASE("a request changes no sealed sample that the one before it has asked for") {
  const Pairs pairs;
  Bench bench(kUdp, 0, 1, 0, pairs.store(), pairs.key(Role::learner));
  auto cheap = std::make_unique<Cheap>();
  bench.address = cheap->local_address();
  bench.sessions.add_listener(std::move(cheap));
  Connection& client = bench.add_client();
  open(bench);
  std::vector<std::byte> memory(1000);
  bench.handler.work = [&] {  // as a table does that lets go of the sampled rows
    for (Peer* peer : bench.sessions.peers()) {
      const auto& source = peer->lane(Lane::sample).slot(1).source;
      if (source) static_cast<PatternReply&>(*source).assign(2, 1000);
    }
  };
  const CallId sampled = order(client, 1, memory);
  const CallId pinged = client.submit(client.begin(Operation::ping));
  bench.run_until([&] { return client.done(sampled) && client.done(pinged); });
  check_pattern(1, memory);
}

TEST_CASE("within this machine's memory nothing is sealed") {
  const Pairs pairs;
  Bench bench("memory:", 0, 1, 0, pairs.store());
  open(bench);
  const CallId id = bench.clients[0]->submit(bench.clients[0]->begin(Operation::publish));
  bench.run_until([&] { return bench.clients[0]->done(id); });
  CHECK(bench.clients[0]->call(id).status == Status::ok);
}

}  // namespace drlnet::test
