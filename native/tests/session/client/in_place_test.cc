// Long replies over a transport that receives them in place: every byte right, and none written
// where it is not expected any more.
#include <deque>

#include "session/bench.h"
#include "transport/placing.h"

namespace drlnet::test {
namespace {

// A client that places, over a network that drops, doubles and reorders that share of frames.
struct PlacingBench {
  Bench bench;
  PlacingTransport* transport;
  Connection* client;

  PlacingBench(double fault, uint64_t seed) : bench("memory:", fault, seed) {
    Connected connected = connect(bench.address);
    if (fault > 0) {
      const FaultPlan faults{fault, fault, fault, 0, seed + 7};
      connected.transport =
          std::make_unique<FaultyTransport>(std::move(connected.transport), faults, faults);
    }
    auto placing = std::make_unique<PlacingTransport>(std::move(connected.transport));
    transport = placing.get();
    connected.transport = std::move(placing);
    client =
        bench.clients.emplace_back(std::make_unique<Connection>(std::move(connected), "placing"))
            .get();
    bench.open();
  }

  CallId order(uint64_t id, const Destination& destination) {
    Call& call = client->begin(Operation::sample);
    const Order order{id, static_cast<uint32_t>(destination.reply_bytes()), 0};
    call.body.resize(sizeof order);
    std::memcpy(call.body.data(), &order, sizeof order);
    call.destination = destination;
    return client->submit(call);
  }
};

// What a reply in that destination makes of `memory` that it has to itself.
std::vector<std::byte> shown(uint64_t id, const Destination& destination,
                             std::span<std::byte> memory) {
  std::vector<std::byte> reply(destination.reply_bytes());
  for (size_t i = 0; i < reply.size(); ++i) reply[i] = pattern(id, i);
  std::ranges::fill(memory, std::byte{0xEE});
  destination.write(0, reply);
  return {memory.begin(), memory.end()};
}

}  // namespace

TEST_CASE("replies received in place are the ones that were sent, whatever the network does") {
  for (const double fault : {0.0, 0.02, 0.1}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(fault);
      CAPTURE(seed);
      PlacingBench placing(fault, seed);
      std::vector<std::byte> plain(900'000), doubled(900'000), apart(900'000);
      // Three thousand of every ten thousand bytes lie twice.
      const Repeat repeat{8'000, 10'000, 60, 3'000};
      Places places;
      places.reply_bytes = 800'000;
      const std::span<std::byte> memory(apart);
      places.runs = {{64, memory.subspan(500'000, 700)},
                     {1'000, memory.subspan(0, 450'000), {5'000, 9'000, 30, 2'000}},
                     {450'000, memory.subspan(520'000, 340'000)}};
      const Destination to[] = {Destination(plain), Destination(doubled, {&repeat, 1}),
                                Destination(places)};
      const std::span<std::byte> memories[] = {plain, doubled, apart};
      for (uint64_t round = 0; round < 3; ++round) {
        std::vector<CallId> calls;
        for (const auto into : memories) std::ranges::fill(into, std::byte{0xEE});
        for (size_t i = 0; i < 3; ++i) calls.push_back(placing.order(10 * round + i, to[i]));
        placing.bench.run_until([&] {
          return std::ranges::all_of(calls, [&](CallId id) { return placing.client->done(id); });
        });
        for (size_t i = 0; i < 3; ++i) {
          placing.client->release(calls[i]);
          const std::vector<std::byte> received(memories[i].begin(), memories[i].end());
          CHECK(received == shown(10 * round + i, to[i], memories[i]));
        }
      }
      CHECK(placing.transport->placed() > 100);
    }
  }
}

TEST_CASE("memory is the caller's again once its call is detached or abandoned in mid-reply") {
  for (const double fault : {0.0, 0.1}) {
    for (const bool abandon : {false, true}) {
      CAPTURE(fault);
      CAPTURE(abandon);
      PlacingBench placing(fault, 3);
      Connection& client = *placing.client;
      auto into = std::make_unique<std::vector<std::byte>>(3'000'000);
      const CallId id = placing.order(7, *into);
      placing.bench.run_until([&] { return client.call(id).got > 1'000'000; });
      CHECK(placing.transport->placed() > 0);
      abandon ? client.abandon(id) : client.detach(id);
      into.reset();  // later writes into it are for the sanitizer to find
      std::vector<std::byte> next(3'000'000, std::byte{0xEE});  // where it was, perhaps
      std::vector<std::byte> other(2'000'000);
      const CallId second = placing.order(8, other);
      placing.bench.run_until([&] { return client.done(second); });
      check_pattern(8, other);
      if (!abandon) {
        placing.bench.run_until([&] { return client.done(id); });
        check_pattern(7, client.call(id).result());
      }
      CHECK(std::ranges::count(next, std::byte{0xEE}) == 3'000'000);
    }
  }
}

TEST_CASE("a reply that is done stays as it is, whatever still comes of it") {
  PlacingBench placing(0.1, 5);
  Connection& client = *placing.client;
  std::deque<std::pair<std::vector<std::byte>, uint64_t>> batches;
  for (uint64_t id = 1; id <= 6; ++id) {
    auto& [memory, name] = batches.emplace_back(std::vector<std::byte>(700'000), id);
    const CallId call = placing.order(name, memory);
    placing.bench.run_until([&] { return client.done(call); });
    client.release(call);
  }
  for (const auto& [memory, id] : batches) check_pattern(id, memory);
}

}  // namespace drlnet::test
