// What a client's session takes from a server, and what not: sizes that do not fit, credits.
#include <doctest/doctest.h>

#include <deque>
#include <set>

#include "session/bench.h"
#include "transport/watching.h"
#include "wire/messages.h"

namespace drlnet::test {
namespace {

// A server made of frames, which may say anything.
class RawServer {
 public:
  explicit RawServer(uint32_t credit) : credit_(credit) {
    client_ = std::make_unique<Connection>(connect(transport_->local_address()), "test");
    const auto greeted = [&] { return client_->state() != Connection::State::hello; };
    run_until(greeted, [&] {
      client_->progress();
      for (const RxFrame& frame : transport_->recv_burst()) welcome(frame);
    });
  }
  Connection& client() { return *client_; }

  // Headers of the frames that the client has sent.
  std::vector<FrameHeader> receive() {
    std::vector<FrameHeader> headers;
    for (auto frames = transport_->recv_burst(); !frames.empty();
         frames = transport_->recv_burst()) {
      for (const RxFrame& frame : frames) {
        REQUIRE(!parse_frame(frame.data, headers.emplace_back()));
      }
    }
    return headers;
  }

  void respond(CallId to, Operation operation, uint32_t total, uint32_t offset, uint32_t length,
               Status status = Status::ok) {
    FrameHeader header;
    header.kind = FrameKind::response;
    header.connection = kConnection;
    header.lane = to.lane;
    header.operation = operation;
    header.status = static_cast<uint16_t>(status);
    header.frame_bytes = static_cast<uint16_t>(client_->frame_bytes());
    header.request = to.request;
    header.total_bytes = total;
    header.offset = offset;
    header.length = length;
    header.credit = credit_;
    send(header, kHeaderBytes + length);
    client_->progress();
  }

 private:
  static constexpr uint32_t kConnection = 4097;

  void welcome(const RxFrame& hello_frame) {
    endpoint_ = hello_frame.from;
    Hello hello;
    std::memcpy(&hello, frame_payload(hello_frame.data).data(), sizeof hello);
    Welcome answer;
    answer.lineage = 1;
    answer.nonce = hello.nonce;
    FrameHeader header;
    header.kind = FrameKind::welcome;
    header.connection = kConnection;
    header.frame_bytes = kMinFrameBytes;
    header.length = sizeof answer;
    header.credit = credit_;
    send(header, hello_frame.data.size(), std::as_bytes(std::span(&answer, 1)));
  }
  void send(const FrameHeader& header, size_t bytes, std::span<const std::byte> payload = {}) {
    const auto frame = transport_->reserve(1);
    std::memset(frame[0].data, 0, bytes);
    write_header(frame[0].data, header);
    std::ranges::copy(payload, frame[0].data + kHeaderBytes);
    frame[0].to = endpoint_;
    frame[0].length = static_cast<uint32_t>(bytes);
    REQUIRE(transport_->send_burst(frame.first(1)) == 1);
  }

  std::unique_ptr<Transport> transport_ = listen("memory:");
  uint32_t credit_;
  Endpoint endpoint_;
  std::unique_ptr<Connection> client_;
};

CallId ask(Connection& client, Operation operation, size_t body_bytes = 0) {
  Call& call = client.begin(operation);
  call.body.resize(body_bytes);
  return client.submit(call);
}

constexpr uint32_t kFragment = kJumboFrameBytes - kHeaderBytes;

}  // namespace

TEST_CASE("the sizes that a client probes begin with the largest that its own link takes") {
  struct Probes {
    size_t mtu, receive_capacity_bytes;
    std::vector<size_t> expected;
  };
  const std::vector<Probes> probes = {
      {65508, 1 << 20, {65472, 8968, 8952, 1472, 1448, 1232}},  // loopback
      {65508, 300 << 10, {8968, 8952, 1472, 1448, 1232}},       // half of it holds four
      {65508, 200 << 10, {8968, 8952, 1472, 1448, 1232}},
      {65508, 1000, {8968, 8952, 1472, 1448, 1232}},
      {8972, 1 << 20, {8968, 8952, 1472, 1448, 1232}},  // an MTU of 9000
      {8952, 1 << 20, {8952, 1472, 1448, 1232}},        // over IPv6
      {3371, 1 << 20, {3368, 1472, 1448, 1232}},
      {1472, 1 << 20, {1472, 1448, 1232}},
      {1452, 1 << 20, {1448, 1232}},  // an MTU of 1500 over IPv6
      {1232, 1 << 20, {1232}}};
  for (const auto& [mtu, receive_capacity_bytes, expected] : probes) {
    WatchingTransport silent(true, kMaxFrameBytes);
    const auto address = udp::resolve(silent.local_address().substr(std::strlen("udp://")))[0];
    Connection client({std::make_unique<WatchingTransport>(true, mtu, receive_capacity_bytes),
                       udp::to_endpoint(address)},
                      "test");
    client.progress();
    std::vector<size_t> sizes;
    for (const RxFrame& frame : silent.recv_burst()) sizes.push_back(frame.data.size());
    CHECK(sizes == expected);
  }
}

TEST_CASE("a reply longer or shorter than its destination fails the session, and none is placed") {
  for (const uint32_t bytes : {1u, 1000u, 299'999u, 300'001u, 900'000u}) {
    for (const bool detach : {false, true}) {
      CAPTURE(bytes);
      CAPTURE(detach);
      Bench bench("memory:", 0, 1);
      bench.open();
      Connection& client = *bench.clients[0];
      std::vector<std::byte> into(300'000);
      const CallId id = order(client, 7, into, bytes);
      if (detach) client.detach(id);
      bench.run_until([&] { return client.state() == Connection::State::lost; });
      REQUIRE(client.failure());
      CHECK(client.failure()->status() == Status::protocol);
      CHECK(client.failure()->cause().find("300000") != std::string::npos);
      CHECK(into == std::vector<std::byte>(300'000));
    }
  }
}

TEST_CASE("a call that is detached before, during and after its reply keeps all of it") {
  enum { kBefore, kDuring, kAfter };
  for (const int when : {kBefore, kDuring, kAfter}) {
    CAPTURE(when);
    Bench bench("memory:", 0, 1);
    bench.open();
    Connection& client = *bench.clients[0];
    auto into = std::make_unique<std::vector<std::byte>>(300'000, std::byte{0xEE});
    const CallId id = order(client, 7, *into);
    bench.run_until([&] {
      return when == kBefore || (when == kDuring && client.call(id).got > 0) || client.done(id);
    });
    CHECK(client.done(id) == (when == kAfter));
    client.detach(id);
    CHECK(client.call(id).reply.size() == (when == kBefore ? 0 : 300'000));
    into.reset();  // later writes into it are for the sanitizer to find
    bench.run_until([&] { return client.done(id); });
    REQUIRE(client.call(id).result().size() == 300'000);
    check_pattern(7, client.call(id).result());
  }
}

TEST_CASE("a refusal outlives that its call is detached") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  std::vector<std::byte> into(300'000);
  const CallId id = order(client, 7, into, kRefused);
  bench.run_until([&] { return client.done(id); });
  client.detach(id);
  const auto text = client.call(id).result();
  CHECK(std::ranges::equal(text, std::as_bytes(std::span(kRefusal))));
}

TEST_CASE("an answer that is not collected waits, and holds up no other call") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  std::vector<std::byte> into(5000);
  const CallId left = order(client, 500, into);
  std::deque<CallId> appends;
  for (uint64_t id = 1; id <= 40; ++id) {
    bench.run_until([&] { return client.has_room(Operation::append); });
    appends.push_back(append(client, id, 100));
  }
  for (uint64_t id = 1; id <= 40; ++id) {
    std::vector<std::byte> other(1000);
    bench.run_until([&] { return client.has_room(Operation::sample); });
    const CallId sample = order(client, id, other);
    bench.run_until([&] { return client.done(sample); });
    client.release(sample);
  }
  bench.run_until([&] { return client.done(appends.back()); });
  for (uint64_t id = 1; id <= 40; ++id) {
    REQUIRE(client.done(appends.front()));
    uint64_t echoed;
    std::memcpy(&echoed, client.call(appends.front()).result().data(), sizeof echoed);
    CHECK(echoed == id);
    client.release(appends.front());
    appends.pop_front();
  }
  REQUIRE(client.done(left));
  check_pattern(500, client.call(left).result());
  client.abandon(left);
}

TEST_CASE("a call that is withdrawn leaves its place to the next") {
  Bench bench("memory:", 0, 1);
  bench.open();
  Connection& client = *bench.clients[0];
  for (int i = 0; i < 10; ++i) client.withdraw(client.begin(Operation::ping));
  const CallId ping = ask(client, Operation::ping, 30);
  CHECK(ping.request == 1);
  bench.run_until([&] { return client.done(ping); });
  CHECK(bench.handler.pings == 1);
}

TEST_CASE("a reply longer than any of its kind fails the session") {
  struct Claim {
    Operation operation;
    uint32_t total;
  };
  for (const auto [operation, total] :
       {Claim{Operation::stats, UINT32_MAX}, Claim{Operation::stats, kMaxReplyBytes + 1},
        Claim{Operation::ping, 1u << 31}, Claim{Operation::fetch, UINT32_MAX},
        Claim{Operation::sample, UINT32_MAX}}) {
    CAPTURE(operation_name(operation));
    RawServer server(1 << 20);
    const CallId id = ask(server.client(), operation, 16);
    server.respond(id, operation, total, 0, kFragment);
    REQUIRE(server.client().state() == Connection::State::lost);
    CHECK(server.client().failure()->status() == Status::protocol);
    CHECK(server.client().call(id).reply.capacity() == 0);
  }
}

TEST_CASE("a reply takes memory as it comes, whatever it claims to be") {
  RawServer server(1 << 20);
  Connection& client = server.client();
  const CallId id = ask(client, Operation::fetch, 8);
  constexpr uint32_t kClaim = kMaxParamsBytes;
  server.respond(id, Operation::fetch, kClaim, 0, kFragment);
  CHECK(client.call(id).state == Call::State::receiving);
  // The last fragment, which was not asked for.
  const uint32_t last = (kClaim - 1) / kFragment * kFragment;
  server.respond(id, Operation::fetch, kClaim, last, kClaim - last);
  CHECK(client.state() == Connection::State::open);
  CHECK(client.call(id).got == kFragment);
  CHECK(client.call(id).reply.capacity() < (1 << 20));
}

TEST_CASE("a first frame that does not belong to its reply changes nothing") {
  RawServer server(1 << 20);
  Connection& client = server.client();
  const CallId id = ask(client, Operation::stats);
  server.respond(id, Operation::stats, 3 * kFragment, 8, 16);
  server.respond(id, Operation::stats, 3 * kFragment, kFragment, kFragment - 8);
  CHECK(client.call(id).state == Call::State::sending);
  server.respond(id, Operation::stats, 100, 0, 100);
  CHECK(client.done(id));
}

TEST_CASE("a reply that has begun is only given up as a whole, for a refusal in one frame") {
  for (const auto& [status, bytes] :
       {std::pair{Status::sample_expired, 0u}, std::pair{Status::table_dropped, 300u}}) {
    RawServer server(1 << 20);
    Connection& client = server.client();
    const CallId id = ask(client, Operation::sample, 8);
    server.respond(id, Operation::sample, 3 * kFragment, 0, kFragment);
    server.respond(id, Operation::sample, 500, 0, 400, status);
    server.respond(id, Operation::sample, kMaxErrorBytes + 8, 0, kMaxErrorBytes + 8, status);
    server.respond(id, Operation::sample, 2 * kFragment, kFragment, kFragment);
    server.respond(id, Operation::sample, 500, 0, 500);
    CHECK(!client.done(id));
    CHECK(client.call(id).got == kFragment);
    server.respond(id, Operation::sample, bytes, 0, bytes, status);
    REQUIRE(client.done(id));
    CHECK(client.call(id).status == status);
    CHECK(client.call(id).result().size() == bytes);
  }
}

// The server's buffer is charged kMinFrameCharge for the smallest frame.
TEST_CASE("many tiny requests never exceed the credit in what they take of the server's buffer") {
  constexpr uint32_t kFrames = 4;
  RawServer server(kFrames * kMinFrameCharge);
  Connection& client = server.client();
  size_t asked = 0;
  for (int i = 0; i < 30; ++i, ++asked) ask(client, Operation::sample, 8);
  for (int i = 0; i < 8; ++i, ++asked) ask(client, Operation::update_priorities, 8);
  for (int i = 0; i < 4; ++i, ++asked) ask(client, Operation::ping);
  std::set<std::pair<Lane, uint64_t>> unanswered, answered;
  const auto all_answered = [&] { return answered.size() == asked; };
  run_until(all_answered, [&] {
    client.progress();
    for (const FrameHeader& header : server.receive()) {
      const std::pair request{header.lane, header.request};
      if (header.kind == FrameKind::request && !answered.contains(request)) {
        unanswered.insert(request);
      }
    }
    REQUIRE(unanswered.size() <= kFrames);  // a repeated one is not in flight twice
    if (unanswered.empty()) return;
    const auto [lane, request] = *unanswered.begin();
    unanswered.erase(unanswered.begin());
    answered.insert({lane, request});
    const Operation operation = lane == Lane::sample   ? Operation::sample
                                : lane == Lane::update ? Operation::update_priorities
                                                       : Operation::ping;
    server.respond({lane, request}, operation, 16, 0, 16);
  });
}

}  // namespace drlnet::test
