// Long replies: how they leave their server, and what waits for them meanwhile.
#include <algorithm>

#include "session/bench.h"
#include "transport/forwarding.h"

namespace drlnet::test {
namespace {

class CountedBursts final : public ForwardingTransport {
 public:
  CountedBursts(std::unique_ptr<Transport> inner, bool cheap)
      : ForwardingTransport(std::move(inner)), cheap_(cheap) {}

  std::vector<size_t> bursts;      // frames in each
  std::vector<Operation> answers;  // frame by frame
  bool full = false;

  std::span<TxFrame> reserve(size_t count) override {
    return full ? std::span<TxFrame>{} : ForwardingTransport::reserve(count);
  }
  size_t send_burst(std::span<const TxFrame> frames) override {
    bursts.push_back(frames.size());
    for (const TxFrame& frame : frames) {
      FrameHeader header;
      REQUIRE_FALSE(parse_frame({frame.data, frame.length}, header));
      answers.push_back(header.operation);
    }
    return ForwardingTransport::send_burst(frames);
  }
  bool bursts_are_cheap() const override { return cheap_; }

 private:
  bool cheap_;
};

// One client of a server whose bursts are counted.
struct CountedBench {
  TestHandler handler;
  Sessions sessions{handler, {77, 1}};
  CountedBursts* counted;
  std::unique_ptr<Connection> client;

  explicit CountedBench(bool cheap) {
    auto transport = std::make_unique<CountedBursts>(listen("memory:"), cheap);
    counted = transport.get();
    client = std::make_unique<Connection>(connect(transport->local_address()), "test");
    sessions.add_listener(std::move(transport));
    run_until([&] { return client->state() == Connection::State::open; });
    counted->bursts.clear();
    counted->answers.clear();
  }
  template <typename Condition>
  void run_until(Condition condition) {
    test::run_until(condition, [&] {
      client->progress();
      sessions.poll();
    });
  }
};

// How many frames each burst had of a reply that takes four.
std::vector<size_t> bursts_of_a_reply(bool cheap) {
  CountedBench bench(cheap);
  std::vector<std::byte> reply(3 * kJumboFrameBytes + 1000);
  const CallId id = order(*bench.client, 9, reply);
  bench.run_until([&] { return bench.client->done(id); });
  check_pattern(9, reply);
  return bench.counted->bursts;
}

// A sample, and a ping right behind it.
std::vector<Operation> answers_in_turn(bool cheap, bool full) {
  CountedBench bench(cheap);
  std::vector<std::byte> reply(1000);
  bench.counted->full = full;
  const CallId sample = order(*bench.client, 9, reply);
  const CallId ping = bench.client->submit(bench.client->begin(Operation::ping));
  bench.sessions.poll();
  CHECK(bench.counted->answers.empty() == full);
  bench.counted->full = false;
  bench.sessions.poll();  // before the client, after a stall, asks for the ping's answer again
  bench.run_until([&] { return bench.client->done(sample) && bench.client->done(ping); });
  check_pattern(9, reply);
  return bench.counted->answers;
}

}  // namespace

TEST_CASE("where bursts are cheap the first frames of a reply wait for no later ones") {
  CHECK(bursts_of_a_reply(true) == std::vector<size_t>{1, 1, 1, 1});
  CHECK(bursts_of_a_reply(false) == std::vector<size_t>{4});
}

TEST_CASE("where bursts are cheap a reply of one frame waits for nothing, else for short answers") {
  CHECK(answers_in_turn(true, false) == std::vector{Operation::sample, Operation::ping});
  CHECK(answers_in_turn(false, false) == std::vector{Operation::ping, Operation::sample});
}

TEST_CASE("a reply of one frame for which the device has no room goes when it has") {
  CHECK(answers_in_turn(true, true)[0] == Operation::sample);
}

TEST_CASE(
    "while a long reply goes out, a client that appends again at once is answered after a pause") {
  Bench bench("memory:", 0, 1);
  Connection& reader = *bench.clients[0];
  Connection& writer = bench.add_client();
  bench.open();
  std::vector<std::byte> reply(64 << 20);
  const CallId bulk = order(reader, 9, reply);
  bench.run_until([&] { return reader.call(bulk).got > 0; });
  const uint64_t before = now_ns();
  const CallId first = append(writer, 1, 40);
  for (auto* client : {&reader, &writer}) client->progress();
  bench.sessions.poll();
  writer.progress();
  CHECK(writer.done(first));  // the writer's first one waits for nothing
  const CallId second = append(writer, 2, 40);
  bench.run_until([&] { return writer.done(second); });
  CHECK(now_ns() - before >= Sessions::kAppendPauseNs);
  REQUIRE_FALSE(reader.done(bulk));
  // Many at once: all are answered, each once.
  std::vector<CallId> more;
  for (uint64_t id = 3; id < 7; ++id) more.push_back(append(writer, id, 40));
  bench.run_until(
      [&] { return std::ranges::all_of(more, [&](CallId id) { return writer.done(id); }); });
  CHECK(bench.handler.appended == std::vector<uint64_t>{1, 2, 3, 4, 5, 6});
  // No client waits in vain: with the reply's end the pause ends, too.
  const CallId last = append(writer, 7, 40);
  bench.run_until([&] { return reader.done(bulk) && writer.done(last); });
}

namespace {

// A device that takes frames only while it is told to.
class Closable final : public ForwardingTransport {
 public:
  explicit Closable(std::unique_ptr<Transport> inner) : ForwardingTransport(std::move(inner)) {}
  bool takes = true;

  size_t send_burst(std::span<const TxFrame> frames) override {
    return takes ? ForwardingTransport::send_burst(frames) : 0;
  }
};

// A long reply is on its way to one client, and another one's appends come: the first of them is
// answered at once, the others are held back.
struct BesideALongReply {
  TestHandler handler;
  Sessions sessions{handler, {77, 1}};
  Closable* device = nullptr;
  std::unique_ptr<Connection> reader, writer;
  std::vector<std::byte> reply = std::vector<std::byte>(64 << 20);
  std::vector<CallId> calls;

  BesideALongReply() {
    auto transport = std::make_unique<Closable>(listen("memory:"));
    const std::string address = transport->local_address();
    device = transport.get();
    sessions.add_listener(std::move(transport));
    reader = std::make_unique<Connection>(connect(address), "reader");
    writer = std::make_unique<Connection>(connect(address), "writer");
    run_until([&] {
      return reader->state() == Connection::State::open &&
             writer->state() == Connection::State::open;
    });
    const CallId bulk = order(*reader, 9, reply);
    run_until([&] { return reader->call(bulk).got > 0; });
  }
  template <typename Condition>
  void run_until(Condition condition) {
    test::run_until(condition, [&] {
      for (auto* client : {reader.get(), writer.get()}) client->progress();
      sessions.poll();
    });
  }
  void append_more(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      calls.push_back(append(*writer, calls.size() + 1, 40));
    }
    writer->progress();
  }
  // The writer asks again for nothing meanwhile: it is not run.
  void serve(uint64_t for_ns) {
    const uint64_t until = now_ns() + for_ns;
    do {
      reader->progress();
      sessions.poll();
    } while (now_ns() < until);
  }
  size_t answered() {
    writer->progress();
    return static_cast<size_t>(
        std::ranges::count_if(calls, [&](CallId id) { return writer->done(id); }));
  }
};

}  // namespace

TEST_CASE("answers that were held back wait for a device that is full, and are not lost") {
  BesideALongReply beside;
  beside.device->takes = false;
  beside.append_more(4);
  beside.serve(5 * Sessions::kAppendPauseNs);
  beside.device->takes = true;
  beside.serve(5 * Sessions::kAppendPauseNs);
  CHECK(beside.answered() == 4);
  CHECK(beside.handler.appended == std::vector<uint64_t>{1, 2, 3, 4});
}

#ifndef __SANITIZE_ADDRESS__  // with it, a round takes longer than the pause
TEST_CASE("an append does not overtake those whose answers are held back") {
  BesideALongReply beside;
  const auto round_after_a_pause = [&] {
    beside.reader->progress();
    for (const uint64_t until = now_ns() + Sessions::kAppendPauseNs; now_ns() < until;) {
    }
    beside.sessions.poll();
  };
  uint64_t took_ns = Sessions::kAppendPauseNs;
  // A round that takes a whole pause has nothing to hold back: the machine halted us, or gave us
  // the memory that the first turns fill.
  test::run_until([&] { return took_ns < Sessions::kAppendPauseNs; },
                  [&] {
                    round_after_a_pause();
                    REQUIRE(beside.answered() == beside.calls.size());
                    round_after_a_pause();
                    const uint64_t started_ns = now_ns();
                    beside.append_more(2);
                    beside.sessions.poll();
                    took_ns = now_ns() - started_ns;
                  });
  CHECK(beside.answered() == beside.calls.size() - 1);
  beside.append_more(1);
  round_after_a_pause();
  CHECK(beside.answered() == beside.calls.size());
}
#endif

}  // namespace drlnet::test
