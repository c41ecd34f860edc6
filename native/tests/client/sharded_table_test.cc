#include "client/sharded_table.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "client/bench.h"

namespace drlnet::test {
namespace {

std::vector<Client*> pointers(const std::vector<std::unique_ptr<Client>>& clients) {
  std::vector<Client*> result;
  for (const auto& client : clients) result.push_back(client.get());
  return result;
}

// `streams` of them at each shard.
void fill(const ShardedTable& table, const std::vector<std::unique_ptr<Client>>& clients,
          const TableSpec& spec, uint32_t streams, uint64_t steps) {
  for (uint32_t shard = 0; shard < clients.size(); ++shard) {
    Client& client = *clients[shard];
    StreamWriter writer(client, table.number(shard), spec,
                        client.lease(table.number(shard), streams), {});
    write(writer, streams, 0, steps);
    writer.flush();
  }
}

std::vector<uint64_t> keys_of(std::span<const std::byte> reply, uint32_t n) {
  std::vector<uint64_t> keys(n);
  std::memcpy(keys.data(), reply.data() + sizeof(SampleHeader), n * sizeof(uint64_t));
  return keys;
}

uint64_t draws_left(std::span<const std::byte> reply) {
  SampleHeader header;
  std::memcpy(&header, reply.data(), sizeof header);
  return header.draws_left;
}

double sum_of_probabilities(const TableSpec& spec, std::span<const std::byte> reply, uint32_t n) {
  std::vector<float> values(n);
  std::memcpy(values.data(), reply.data() + SampleLayout(spec).probabilities(n), n * sizeof(float));
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

TEST_CASE("batches of several shards lie in one piece, whatever the network does to their parts") {
  for (const double fault : {0.0, 0.1}) {
    for (const uint32_t n : {1u, 7u, 2000u}) {
      CAPTURE(fault);
      CAPTURE(n);
      const RunningShards server(3);
      const auto clients = server.clients(fault, 11);
      const TableSpec spec = spec_of();
      ShardedTable table(pointers(clients), spec);
      fill(table, clients, spec, 2, 100);
      const BatchLayout layout(spec, n);
      std::vector<std::byte> batch(table.bytes(layout));
      for (int round = 0; round < 3; ++round) {
        table.sample(layout, batch, deadline_in(kPatienceNs));
        check_sample(spec, batch, n);
        // All have the same priority, a sixth of which each stream holds.
        CHECK(sum_of_probabilities(spec, batch, n) ==
              doctest::Approx(n / (6.0 * (100 - 100 / kSteps))).epsilon(1e-4));
      }
      std::vector<std::vector<std::byte>> memory(3, batch);
      std::vector<std::span<std::byte>> buffers(memory.begin(), memory.end());
      ShardedStream stream(table, layout, buffers);
      for (int round = 0; round < 5; ++round) {
        check_sample(spec, buffers[stream.next(deadline_in(kPatienceNs))], n);
      }
    }
  }
}

TEST_CASE("a batch that came too late is whole when it is asked for again, elsewhere") {
  const RunningShards server(2);
  const auto clients = server.clients(0, 1);
  TableSpec spec = spec_of(10'000, {.min_size = 40});
  ShardedTable table(pointers(clients), spec);
  fill(table, clients, spec, 1, 10);
  constexpr uint32_t kItems = 500;
  {
    const BatchLayout layout(spec, kItems);
    std::vector<std::byte> gone(table.bytes(layout));
    const Error error = error_of([&] { table.sample(layout, gone, deadline_in(500'000'000)); });
    CHECK(error.status() == Status::timeout);
    CHECK(error.cause().find("min_size") != std::string::npos);
  }
  fill(table, clients, spec, 3, 40);
  const BatchLayout layout(spec, kItems);
  std::vector<std::byte> batch(table.bytes(layout));
  table.sample(layout, batch, deadline_in(kPatienceNs));
  check_sample(spec, batch, kItems);
  CHECK(error_of([&] {
          table.sample(BatchLayout(spec, 0), batch, deadline_in(1'000'000));
        }).status() == Status::config);
}

TEST_CASE("shards of a queue give each item as often as it may be drawn, on any network") {
  for (const double fault : {0.0, 0.1}) {
    for (const uint32_t most : {1u, 3u}) {
      CAPTURE(fault);
      CAPTURE(most);
      const RunningShards server(3);
      const auto clients = server.clients(fault, 5);
      const TableSpec spec = spec_of(10'000, {.max_times_sampled = most});
      ShardedTable table(pointers(clients), spec);
      fill(table, clients, spec, 1, 40);
      StreamWriter writer(*clients[1], table.number(1), spec, clients[1]->lease(table.number(1), 2),
                          {});
      write(writer, 2, 0, 100);
      writer.flush();
      std::map<uint64_t, uint32_t> times;
      uint64_t left = 7;
      while (left > 0) {
        const auto n = static_cast<uint32_t>(std::min<uint64_t>(left, 7));
        const BatchLayout layout(spec, n);
        std::vector<std::byte> batch(table.bytes(layout));
        table.sample(layout, batch, deadline_in(kPatienceNs));
        check_sample(spec, batch, n);
        for (const uint64_t key : keys_of(batch, n)) ++times[key];
        left = draws_left(batch);
      }
      CHECK(times.size() == (3 * 40 + 2 * 100) / kSteps * (kSteps - 1));
      for (const auto& [key, count] : times) REQUIRE(count == most);
    }
  }
}

TEST_CASE("what one shard of a queue has not got any more comes from another, and the rest stays") {
  const RunningShards server(2);
  const auto clients = server.clients(0, 1), others = server.clients(0, 2);
  const TableSpec spec = spec_of(10'000, {.max_times_sampled = 1});
  ShardedTable table(pointers(clients), spec), other(pointers(others), spec);
  constexpr uint32_t kItems = 8;
  const BatchLayout layout(spec, kItems);
  const auto put = [&](uint32_t shard, uint64_t steps) {
    Client& client = *clients[shard];
    StreamWriter writer(client, table.number(shard), spec, client.lease(table.number(shard), 1),
                        {});
    write(writer, 1, 0, steps + 2);  // the last two items wait for their rows
    writer.flush();
  };
  std::vector<std::byte> batch(table.bytes(layout)), taken = batch;
  put(0, 8);
  put(1, 8);
  table.sample(layout, batch, deadline_in(kPatienceNs));  // four of each; as many are left
  other.sample(layout, taken, deadline_in(kPatienceNs));
  put(0, 8);
  SplitSample split = table.begin(layout, batch);
  const auto gather = [&](uint64_t ns) { table.gather(split, layout, batch, deadline_in(ns)); };
  gather(kPatienceNs);  // four are there; the other shard has none any more
  CHECK_FALSE(table.take(split, layout, batch, deadline_in(kPatienceNs)));
  const BatchLayout two(spec, 2);
  std::vector<std::byte> small(other.bytes(two));
  other.sample(two, small, deadline_in(kPatienceNs));
  CHECK(error_of([&] { gather(50'000'000); }).status() == Status::timeout);
  put(1, 4);
  do {
    gather(kPatienceNs);
  } while (!table.take(split, layout, batch, deadline_in(kPatienceNs)));
  check_sample(spec, batch, kItems);
  CHECK(draws_left(batch) == 2);
  std::vector<uint64_t> keys = keys_of(batch, kItems);
  std::ranges::sort(keys);
  CHECK(std::ranges::adjacent_find(keys) == keys.end());
}

TEST_CASE("a shard of a queue goes on with less than a batch beside what its streams have begun") {
  constexpr int32_t kUnroll = 8;
  TableSpec spec = spec_of(2 * 74, {.batch = 8, .append_burst = 1, .max_times_sampled = 1});
  spec.item.views = {{"obs", 0, 0, kUnroll, Pad::repeat, Align::anchor}};
  spec.item.boundary = Boundary::cross;
  spec.item.period = kUnroll;
  spec.sampler.name = "fifo";
  const RunningShards server(2);
  const auto client = server.client(0, 0, 1);
  const uint32_t table = client->open_table(spec);
  StreamWriter slow(*client, table, spec, client->lease(table, 3), {.flush_rows = 1});
  StreamWriter fast(*client, table, spec, client->lease(table, 1), {.flush_rows = 1});
  write(slow, 3, 0, kUnroll);
  slow.flush();
  write(fast, 1, 0, 8 * kUnroll + 1);
  fast.flush();
  std::vector<std::byte> reply(SampleLayout(spec).total_bytes(8));
  client->sample(table, 8, reply, deadline_in(kPatienceNs));
}

}  // namespace drlnet::test
