// A side that cannot take joined frames gets none from the first hello on, in either direction,
// over real UDP with segmentation offload; the other clients' frames stay joined.
#include "patience.h"
#include "session/client/connection.h"
#include "session/server/sessions.h"
#include "transport/watching.h"

namespace drlnet::test {
namespace {

constexpr size_t kBytes = 200'000;

std::byte pattern(size_t at) { return static_cast<std::byte>(at * 7 + (at >> 8)); }

// Appends are read, samples are answered with a pattern.
class PatternHandler final : public RequestHandler {
 public:
  size_t appended_bytes = 0;
  uint16_t handle(Peer&, Slot& slot, std::span<const std::byte> body) override {
    for (size_t i = 0; slot.operation == Operation::append && i < body.size(); ++i) {
      REQUIRE(body[i] == pattern(i));
      ++appended_bytes;
    }
    slot.bytes.resize(slot.operation == Operation::sample ? kBytes : 0);
    for (size_t i = 0; i < slot.bytes.size(); ++i) slot.bytes[i] = pattern(i);
    return 0;
  }
  void retry_waiting() override {}
  void ended(Peer&) override {}
};

struct Bench {
  PatternHandler handler;
  Sessions sessions{handler, {77, 1}};
  std::vector<std::unique_ptr<Connection>> clients;

  std::string add_listener(std::unique_ptr<Transport> transport) {
    const std::string address = transport->local_address();
    sessions.add_listener(std::move(transport));
    return address;
  }
  void add_client(std::unique_ptr<Transport> transport, const std::string& server) {
    const auto address = udp::resolve(server.substr(std::strlen("udp://")))[0];
    clients.push_back(std::make_unique<Connection>(
        Connected{std::move(transport), udp::to_endpoint(address)}, "test"));
  }
  template <typename Condition>
  void run_until(Condition condition) {
    test::run_until(condition, [&] {
      for (auto& client : clients) client->progress();
      sessions.poll();
    });
  }
  // Every client appends and samples kBytes.
  void exercise() {
    run_until([&] {
      return std::ranges::all_of(
          clients, [](const auto& c) { return c->state() == Connection::State::open; });
    });
    handler.appended_bytes = 0;
    for (auto& client : clients) {
      Call& append = client->begin(Operation::append);
      append.body.resize(kBytes);
      for (size_t i = 0; i < kBytes; ++i) append.body[i] = pattern(i);
      const CallId appended = client->submit(append);
      const CallId sampled = client->submit(client->begin(Operation::sample));
      run_until([&] { return client->done(appended) && client->done(sampled); });
      const auto reply = client->call(sampled).result();
      REQUIRE(reply.size() == kBytes);
      for (size_t i = 0; i < kBytes; ++i) REQUIRE(reply[i] == pattern(i));
      client->release(appended);
      client->release(sampled);
    }
    CHECK(handler.appended_bytes == clients.size() * kBytes);
  }
};

}  // namespace

TEST_CASE("a server joins no frames to a client that cannot take them, and joins another's") {
  Bench bench;
  const std::string server = bench.add_listener(listen("udp://127.0.0.1:0"));
  auto apart = std::make_unique<WatchingTransport>(false);
  auto joined = std::make_unique<WatchingTransport>(true);
  const WatchingTransport &watched_apart = *apart, &watched_joined = *joined;
  bench.add_client(std::move(apart), server);
  bench.add_client(std::move(joined), server);
  bench.exercise();
  CHECK(watched_apart.joined() == 0);
  CHECK(watched_apart.single() > kBytes / kJumboFrameBytes);
  CHECK(watched_joined.joined() > 0);
}

TEST_CASE("a client joins no frames to a server that cannot take them") {
  for (const bool takes_joined_frames : {false, true}) {
    CAPTURE(takes_joined_frames);
    Bench bench;
    auto transport = std::make_unique<WatchingTransport>(takes_joined_frames);
    const WatchingTransport& watched = *transport;
    const std::string server = bench.add_listener(std::move(transport));
    bench.add_client(std::move(connect(server).transport), server);
    bench.exercise();
    // A session that is opened anew learns it again.
    bench.sessions.expire(now_ns() + Sessions::kSilenceNs + 1'000'000'000);
    bench.exercise();
    CHECK((watched.joined() == 0) == !takes_joined_frames);
    CHECK(watched.single() > kBytes / kJumboFrameBytes / 8);
  }
}

TEST_CASE("hellos and welcomes go apart before anything is known") {
  // Nothing but hellos: no server answers.
  WatchingTransport silent(true, kMaxFrameBytes);
  const auto address = udp::resolve(silent.local_address().substr(std::strlen("udp://")))[0];
  Connection client(
      {std::move(connect(silent.local_address()).transport), udp::to_endpoint(address)}, "test");
  client.progress();
  CHECK(silent.recv_burst().size() == 1 + kFrameSizes.size());
  CHECK(silent.joined() == 0);

  // One client's hellos by hand: their welcomes come in one burst.
  Bench bench;
  const std::string server = bench.add_listener(listen("udp://127.0.0.1:0"));
  auto transport = std::make_unique<WatchingTransport>(true);
  const WatchingTransport& watched = *transport;
  bench.add_client(std::move(transport), server);
  bench.run_until([&] { return bench.clients[0]->state() == Connection::State::open; });
  CHECK(watched.single() >= 1);
  CHECK(watched.joined() == 0);
}

}  // namespace drlnet::test
