// How a server's sessions share its turns, by counts: each test says what comes in one burst.
#include <deque>
#include <map>

#include "session/bench.h"
#include "transport/forwarding.h"

namespace drlnet::test {
namespace {

// Hands the server the bursts that a test has written, and keeps what it answers.
class Script final : public ForwardingTransport {
 public:
  Script() : ForwardingTransport(listen("memory:")) {}

  void frame(uint64_t port, const FrameHeader& header, std::span<const std::byte> payload = {},
             size_t bytes = 0) {
    std::vector<std::byte>& data = next_.emplace_back(
        std::max(bytes, kHeaderBytes + payload.size()));  // aligned, as any allocation
    write_header(data.data(), header);
    std::ranges::copy(payload, data.begin() + kHeaderBytes);
    next_from_.push_back(from(port));
  }
  void hello(uint64_t port) {
    FrameHeader header;
    header.kind = FrameKind::hello;
    header.length = sizeof(Hello);
    Hello hello;
    hello.client = hello.nonce = port;
    frame(port, header, std::as_bytes(std::span(&hello, 1)), kMinFrameBytes);
  }
  std::span<const RxFrame> recv_burst() override {
    burst_.swap(next_);
    burst_from_.swap(next_from_);
    next_.clear();
    next_from_.clear();
    frames_.clear();
    for (size_t i = 0; i < burst_.size(); ++i) frames_.push_back({burst_from_[i], burst_[i]});
    return frames_;
  }
  size_t send_burst(std::span<const TxFrame> frames) override {
    for (const TxFrame& sent : frames) {
      FrameHeader header;
      REQUIRE(!parse_frame({sent.data, sent.length}, header));
      answers[{port_of(sent.to), header.kind}].push_back(header);
      if (header.operation != Operation::sample) continue;
      sent.loans.copy_out();
      const std::span<const std::byte> frame(sent.data, sent.length);
      samples.emplace_back(frame.begin() + kHeaderBytes, frame.end());
    }
    return frames.size();
  }

  std::map<std::pair<uint64_t, FrameKind>, std::vector<FrameHeader>> answers;
  std::vector<std::vector<std::byte>> samples;
  size_t count(uint64_t port, FrameKind kind) { return answers[{port, kind}].size(); }

 private:
  static Endpoint from(uint64_t port) {
    Endpoint endpoint;
    std::memcpy(endpoint.bytes.data(), &port, sizeof port);
    return endpoint;
  }
  static uint64_t port_of(const Endpoint& endpoint) {
    uint64_t port;
    std::memcpy(&port, endpoint.bytes.data(), sizeof port);
    return port;
  }
  std::vector<std::vector<std::byte>> next_, burst_;
  std::vector<Endpoint> next_from_, burst_from_;
  std::vector<RxFrame> frames_;
};

// Remembers whose requests ran, in order. Samples are lent, and a publish fills what lies there.
class Recorder final : public RequestHandler {
 public:
  std::vector<uint32_t> ran;
  uint32_t work = 0;         // that the next request says it was
  uint32_t sample_work = 0;  // of each
  PatternReply* lent = nullptr;

  uint16_t handle(Peer& peer, Slot& slot, std::span<const std::byte>) override {
    ran.push_back(peer.connection);
    slot.work = std::exchange(work, 0);
    if (slot.operation == Operation::sample) {
      auto source = std::make_unique<PatternReply>();
      lent = source.get();
      lent->assign(1, kLentBytes);
      slot.source = std::move(source);
      slot.use_source = true;
      slot.work = sample_work;
    }
    if (slot.operation == Operation::publish) lent->assign(2, kLentBytes);
    return 0;
  }
  static constexpr uint32_t kLentBytes = 4096;
  void retry_waiting() override {}
  void ended(Peer&) override {}
};

constexpr uint64_t kFlooder = 1000, kHonest = 2000;

struct Turns {
  Recorder handler;
  Sessions sessions{handler, {77, 1}};
  Script* script;
  std::map<uint64_t, uint32_t> connections;  // by port
  std::map<std::pair<uint64_t, Lane>, uint64_t> asked;

  explicit Turns(const std::vector<uint64_t>& ports) {
    auto transport = std::make_unique<Script>();
    script = transport.get();
    sessions.add_listener(std::move(transport));
    for (const uint64_t port : ports) {
      script->hello(port);
      sessions.poll();
      connections[port] = script->answers[{port, FrameKind::welcome}].back().connection;
      ask(port);  // it has proved then
      sessions.poll();
    }
    script->answers.clear();
    handler.ran.clear();
  }
  // A request, in as many frames as its bytes take.
  void ask(uint64_t port, Operation operation = Operation::ping, uint32_t bytes = 0) {
    again(port, operation, ++asked[{port, lane_of(operation)}], bytes);
  }
  void again(uint64_t port, Operation operation, uint64_t request, uint32_t bytes = 0) {
    const uint32_t room = kJumboFrameBytes - kHeaderBytes;
    FrameHeader header;
    header.kind = FrameKind::request;
    header.connection = connections[port];
    header.lane = lane_of(operation);
    header.operation = operation;
    header.request = request;
    header.frame_bytes = kJumboFrameBytes;
    header.total_bytes = bytes;
    do {
      header.length = std::min(room, bytes - header.offset);
      script->frame(port, header, std::vector<std::byte>(header.length));
      header.offset += header.length;
    } while (header.offset < bytes);
  }
  // How many of that port's requests ran before the first of another, or in all.
  size_t before_others(uint64_t port) const {
    const auto other = std::ranges::find_if(
        handler.ran, [&](uint32_t connection) { return connection != connections.at(port); });
    return static_cast<size_t>(other - handler.ran.begin());
  }
  size_t ran_for(uint64_t port) const {
    return static_cast<size_t>(std::ranges::count(handler.ran, connections.at(port)));
  }
  uint64_t reading(std::string_view wanted) const {
    Metrics metrics;
    sessions.read_metrics(metrics, 0);
    for (const auto& [name, value] : metrics.list()) {
      if (name == wanted) return std::get<uint64_t>(value);
    }
    FAIL("no metric");
    return 0;
  }
};

}  // namespace

TEST_CASE("another client's request waits for a share of a flood, in every turn") {
  Turns turns({kFlooder, kHonest});
  for (int turn = 0; turn < 20; ++turn) {
    CAPTURE(turn);
    turns.handler.ran.clear();
    // From the request that the server expects: it can not tell a flood by the numbers.
    auto& asked = turns.asked[{kFlooder, Lane::control}];
    asked = turns.script->answers[{kFlooder, FrameKind::response}].empty()
                ? asked
                : turns.script->answers[{kFlooder, FrameKind::response}].back().request;
    for (int i = 0; i < 300; ++i) turns.ask(kFlooder);
    turns.ask(kHonest);
    turns.sessions.poll();
    CHECK(turns.before_others(kFlooder) <= Sessions::kShare);
    CHECK(turns.ran_for(kFlooder) <= Sessions::kShare);
    CHECK(turns.ran_for(kFlooder) > 0);
    CHECK(turns.ran_for(kHonest) == 1);
    CHECK(turns.script->count(kHonest, FrameKind::response) == static_cast<size_t>(turn) + 1);
  }
  CHECK(turns.reading("server.put_off") > 0);
}

TEST_CASE("what costs more takes more of a share, and what is put off runs in later turns") {
  Turns turns({kFlooder, kHonest});
  turns.handler.work = 3 * Sessions::kShare;
  for (int i = 0; i < 3; ++i) turns.ask(kFlooder);
  std::vector<size_t> ran;  // of the flooder's, at the end of each turn
  for (int turn = 0; turn < 8; ++turn) {
    turns.ask(kHonest, Operation::ping);
    turns.sessions.poll();
    ran.push_back(turns.ran_for(kFlooder));
    CHECK(turns.script->count(kHonest, FrameKind::response) == static_cast<size_t>(turn) + 1);
  }
  CHECK(ran == std::vector<size_t>{1, 1, 1, 3, 3, 3, 3, 3});  // it owed three shares and a bit
  CHECK(turns.script->count(kFlooder, FrameKind::response) == 3);
  CHECK(turns.script->count(kFlooder, FrameKind::ack) == 0);  // which tells less than the answer
  CHECK(turns.reading("server.put_off") == 1);
}

TEST_CASE("answers that are asked for again count, and go out again") {
  Turns turns({kFlooder, kHonest});
  turns.ask(kFlooder);
  turns.sessions.poll();
  turns.script->answers.clear();
  const uint64_t answered = turns.asked[{kFlooder, Lane::control}];
  for (int i = 0; i < 300; ++i) turns.again(kFlooder, Operation::ping, answered);
  turns.ask(kHonest);
  turns.sessions.poll();
  CHECK(turns.script->count(kFlooder, FrameKind::response) == Sessions::kShare);
  CHECK(turns.script->count(kHonest, FrameKind::response) == 1);
  // Alone it has more, and not all that it can send.
  turns.script->answers.clear();
  for (int i = 0; i < 300; ++i) turns.again(kFlooder, Operation::ping, answered);
  turns.sessions.poll();
  CHECK(turns.script->count(kFlooder, FrameKind::response) == Sessions::kShareAlone);
}

TEST_CASE("strangers have one share, from however many ports they come") {
  Turns turns({kHonest});
  const size_t most = turns.sessions.limits().half_open;
  for (int turn = 0; turn < 20; ++turn) {
    turns.script->answers.clear();
    for (uint64_t port = 10'000; port < 12'000; ++port) turns.script->hello(port * 100 + turn);
    for (uint64_t port = 10'000; port < 12'000; ++port) {
      FrameHeader lost;  // of a session that there is not: what is told to say hello
      lost.kind = FrameKind::request;
      lost.connection = static_cast<uint32_t>(port);
      lost.frame_bytes = kMinFrameBytes;
      turns.script->frame(port, lost);
      lost.magic = 7;  // garbage is not answered
      turns.script->frame(port, lost);
    }
    turns.ask(kHonest);
    turns.sessions.poll();
    CHECK(turns.script->count(kHonest, FrameKind::response) == 1);
    turns.script->answers.erase({kHonest, FrameKind::response});
    const uint64_t opened = Sessions::kShare / Sessions::kOpening;
    CHECK(turns.script->answers.size() == opened);  // the hellos come first
  }
  CHECK(turns.reading("server.half_open") <= most);
  CHECK(turns.reading("server.request_bytes") == 0);
  CHECK(turns.reading("server.strangers_dropped") ==
        20 * (4000 - Sessions::kShare / Sessions::kOpening));
  CHECK(turns.reading("server.drops.magic") == 20 * 2000);
}

TEST_CASE("a client that writes alone is never held up, whatever sessions there are") {
  std::vector<uint64_t> ports = {kFlooder};
  for (uint64_t port = 1; port <= 50; ++port) ports.push_back(port);
  Turns turns(ports);
  constexpr size_t kAll = kLaneWindow[static_cast<size_t>(Lane::append)];
  const auto ask_all = [&] {
    turns.handler.ran.clear();
    for (size_t i = 0; i < kAll; ++i) turns.ask(kFlooder, Operation::append, kMaxRequestBytes);
  };
  for (int turn = 0; turn < 10; ++turn) {
    ask_all();
    turns.sessions.poll();
    CHECK(turns.ran_for(kFlooder) == kAll);
  }
  CHECK(turns.reading("server.put_off") == 0);
  // Once another one wants something, it has its share of those appends.
  ask_all();
  turns.ask(1);
  turns.sessions.poll();
  const size_t share = Sessions::kShare / (1 + kMaxRequestBytes / Sessions::kUnitBytes) + 1;
  CHECK(turns.ran_for(kFlooder) == share);
  turns.sessions.poll();  // and the others when that one wants nothing more
  CHECK(turns.ran_for(kFlooder) == kAll);
}

TEST_CASE("a request that was put off changes no sample that is on its way") {
  Turns turns({kFlooder, kHonest});
  turns.handler.sample_work = Sessions::kShare / 2;
  turns.ask(kFlooder, Operation::sample);
  turns.ask(kFlooder, Operation::sample);
  turns.ask(kHonest);
  turns.ask(kFlooder, Operation::publish);
  turns.sessions.poll();
  CHECK(turns.ran_for(kFlooder) == 2);
  // The second sample leaves in the turn in which the request runs that overwrites it.
  turns.sessions.poll();
  CHECK(turns.ran_for(kFlooder) == 3);
  const auto& responses = turns.script->answers[{kFlooder, FrameKind::response}];
  REQUIRE(responses.size() == 3);
  CHECK(responses[1].operation == Operation::sample);
  check_pattern(1, turns.script->samples.back());
}

TEST_CASE("what waits when its session ends is forgotten") {
  Turns turns({kFlooder, kHonest});
  turns.handler.work = Sessions::kShare;
  for (int i = 0; i < 4; ++i) turns.ask(kFlooder);
  turns.ask(kHonest);
  turns.sessions.poll();
  FrameHeader bye;
  bye.kind = FrameKind::bye;
  bye.connection = turns.connections[kFlooder];
  turns.script->frame(kFlooder, bye);
  turns.sessions.poll();
  while (turns.sessions.poll()) continue;
  CHECK(turns.ran_for(kFlooder) == 1);
}

TEST_CASE("an allowance of rows fills with time, up to a second's") {
  constexpr uint64_t kSecond = 1'000'000'000;
  RowAllowance rows;
  CHECK(rows.take(100, 100, 5 * kSecond));
  CHECK(!rows.take(1, 100, 5 * kSecond));
  CHECK(rows.take(50, 100, 5 * kSecond + kSecond / 2));
  CHECK(!rows.take(1, 100, 5 * kSecond + kSecond / 2));
  CHECK(rows.take(1000, 100, 9 * kSecond));  // more than ever fits passes a full one
  CHECK(!rows.take(1, 100, 17 * kSecond));   // which then owes nine seconds
  CHECK(rows.take(100, 100, 20 * kSecond));
  CHECK(!rows.take(1, 100, 19 * kSecond));  // a clock that goes back gives nothing
}

}  // namespace drlnet::test
