// The three places of a replay: the same items by the same chances from each.
#include "measure/replay.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>

#include "client/bench.h"

namespace drlnet::measure {
namespace {

using namespace drlnet::test;

constexpr uint64_t kSecond = 1'000'000'000;

struct Fixture {
  explicit Fixture(Poll poll = Poll::adaptive)
      : spec(spec_of()),
        local(std::make_unique<LocalReplay>("udp://127.0.0.1:0", poll, spec, std::nullopt)),
        client({local->address(), "test", 20 * kSecond, Poll::adaptive}),
        table(client.open_table(spec)),
        writer(client, table, spec, client.lease(table, 4), {}) {
    write(writer, 4, 0, 500);
    writer.flush();
    stored = std::make_unique<StoreReplay>(client, table, spec);
    networked = std::make_unique<InNetworkReplay>(client, table, spec);
    replays = {local.get(), stored.get(), networked.get()};
  }

  TableSpec spec;
  std::unique_ptr<LocalReplay> local;
  Client client;
  uint32_t table;
  StreamWriter writer;
  std::unique_ptr<Replay> stored, networked;
  std::vector<Replay*> replays;
};

std::vector<std::byte> buffer_for(const TableSpec& spec, uint32_t n) {
  return std::vector<std::byte>(SampleLayout(spec).total_bytes(n));
}

template <typename T>
std::vector<T> part(std::span<const std::byte> reply, uint64_t offset, size_t n) {
  std::vector<T> values(n);
  std::memcpy(values.data(), reply.data() + offset, n * sizeof(T));
  return values;
}

}  // namespace

TEST_CASE("every place gives the items that it names, and follows what is new") {
  Fixture f;
  std::vector<std::byte> out = buffer_for(f.spec, 300);
  for (uint64_t rows = 500; rows <= 5000; rows += 1500) {  // beyond the capacity of 10,000 rows
    for (const auto& replay : f.replays) {
      replay->sample(300, out);
      check_sample(f.spec, out, 300);
      for (const float p : part<float>(out, SampleLayout(f.spec).probabilities(300), 300)) {
        CHECK(p > 0);
        CHECK(p <= 1);
      }
    }
    write(f.writer, 4, rows, rows + 1500);
    f.writer.flush();
  }
}

TEST_CASE("a priority that one place writes is what all of them draw by") {
  Fixture f;
  const SampleLayout layout(f.spec);
  std::vector<std::byte> out = buffer_for(f.spec, 1000);
  for (const auto& writes : f.replays) {
    writes->sample(1, std::span(out).first(layout.total_bytes(1)));
    const uint64_t key = part<uint64_t>(out, layout.keys(1), 1)[0];
    const float high = 1e6f;  // ^ 0.6 beside some 1,900 items of about 1: two thirds of all draws
    writes->update({&key, 1}, {&high, 1});
    for (const auto& reads : f.replays) {
      reads->sample(1000, out);
      const auto keys = part<uint64_t>(out, layout.keys(1000), 1000);
      const auto chances = part<float>(out, layout.probabilities(1000), 1000);
      const auto drawn = std::count(keys.begin(), keys.end(), key);
      const auto at = std::find(keys.begin(), keys.end(), key);
      REQUIRE(at != keys.end());
      const double chance = static_cast<double>(chances[static_cast<size_t>(at - keys.begin())]);
      CHECK(chance > 0.5);
      CHECK(std::abs(static_cast<double>(drawn) - 1000 * chance) <= 2);  // stratified
    }
    const float low = 1;
    writes->update({&key, 1}, {&low, 1});
  }
}

TEST_CASE("loops time batches and cycles, and write priorities back") {
  Fixture f;
  std::vector<std::byte> out = buffer_for(f.spec, 64);
  std::vector<uint64_t> latencies(10);
  uint64_t updates = 0;
  for (const auto& replay : f.replays) {
    CHECK(replay->samples(64, out, {latencies, kSecond}) == 10);
    CHECK(replay->cycles(64, out, {latencies, kSecond}) == 10);
    updates += 640;
    CHECK(metric(f.client, "table.replay.applied_updates") == updates);
  }
}

TEST_CASE("the learner and the clients' requests take turns, however the server waits") {
  for (const Poll poll : {Poll::busy, Poll::adaptive, Poll::block}) {
    Fixture f(poll);
    std::atomic<bool> stop = false;
    std::thread actor([&] {
      for (uint64_t t = 500; !stop; t += kSteps) {
        write(f.writer, 4, t, t + kSteps);
        f.writer.flush();
      }
    });
    std::vector<std::byte> out = buffer_for(f.spec, 200);
    for (int i = 0; i < 300; ++i) {
      f.local->sample(200, out);
      check_sample(f.spec, out, 200);
    }
    stop = true;
    actor.join();
  }
}

TEST_CASE("the process that holds the replay fills it, and ends while an actor is connected") {
  const TableSpec spec = [] {
    TableSpec bytes = spec_of(1024);
    bytes.columns = {{"row", DataType::u8, {40}}};
    bytes.item.views = {{"row", 0, 0, 0, Pad::repeat, Align::anchor}};
    return bytes;
  }();
  LocalReplay replay("udp://127.0.0.1:0", Poll::block, spec, 0);
  fill(replay.session(), replay.table(), spec, 1024);
  CHECK(metric(replay.session(), "table.replay.rows") == 1024);
  std::vector<std::byte> out = buffer_for(spec, 100);
  replay.sample(100, out);
  Client actor({replay.address(), "actor", 5 * kSecond, Poll::adaptive});
  actor.ping();
  CHECK(error_of([] { LocalReplay("udp://203.0.113.9:1", Poll::block, spec_of(), 0); }).status() ==
        Status::transport);
}

TEST_CASE("a thread that asks again and again keeps no other out, spinning or asleep") {
  for (const uint64_t held_ns : {uint64_t{0}, uint64_t{100'000}}) {
    CAPTURE(held_ns);
    FairMutex mutex(20'000);
    int turns = 0, kept_out = 0;  // guarded; of this thread
    std::atomic<int> waited_for = 0;
    std::thread greedy([&] {
      for (int before = -1; waited_for < 50;) {
        const std::lock_guard lock(mutex);
        kept_out += turns == before;
        for (const uint64_t until = now_ns() + held_ns; now_ns() < until;) spin_pause();
        // Only one that has asked is owed the next turn: it may have been interrupted before.
        const bool owed = mutex.contended();
        before = owed ? turns : -1;
        waited_for += owed;
      }
    });
    while (waited_for < 50) {
      const std::lock_guard lock(mutex);
      ++turns;
    }
    greedy.join();
    CHECK(kept_out == 0);
  }
}

TEST_CASE("what it guards is one thread's at a time, and waiting threads are seen") {
  FairMutex mutex(1000);
  int value = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 20'000; ++n) {
        const std::lock_guard lock(mutex);
        ++value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(value == 80'000);
  CHECK_FALSE(mutex.contended());
  mutex.lock();
  CHECK_FALSE(mutex.contended());
  std::thread waiting([&] { const std::lock_guard lock(mutex); });
  while (!mutex.contended()) spin_pause();
  mutex.unlock();
  waiting.join();
}

}  // namespace drlnet::measure
