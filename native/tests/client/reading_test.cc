// A client that draws for itself: items by their keys and changed priorities, over UDP on loopback,
// bare and through a faulty network.
#include <doctest/doctest.h>

#include "client/bench.h"

namespace drlnet::test {
namespace {

std::vector<uint64_t> keys_of(const SampleLayout& layout, std::span<const std::byte> reply,
                              uint32_t n) {
  std::vector<uint64_t> keys(n);
  std::memcpy(keys.data(), reply.data() + layout.keys(n), 8 * n);
  return keys;
}

}  // namespace

TEST_CASE("items that are read by their keys are what was sampled, bare and through faults") {
  for (const double fault : {0.0, 0.05}) {
    CAPTURE(fault);
    RunningServer server;
    const TableSpec spec = spec_of();
    auto client = client_of(server, fault, 11);
    const uint32_t table = client->open_table(spec);
    StreamWriter writer(*client, table, spec, client->lease(table, 4), {});
    write(writer, 4, 0, 1000);
    writer.flush();
    const SampleLayout layout(spec);
    for (const uint32_t n : {1u, 32u, kMaxReadKeys}) {
      std::vector<std::byte> sampled(layout.total_bytes(n)), read(layout.total_bytes(n));
      client->sample(table, n, sampled, deadline_in(kPatienceNs));
      const std::vector<uint64_t> keys = keys_of(layout, sampled, n);
      client->read_items(table, keys, read, deadline_in(kPatienceNs));
      check_sample(spec, read, n);
      CHECK(keys_of(layout, read, n) == keys);
      const auto rows = static_cast<ptrdiff_t>(layout.lengths(n));
      CHECK(std::equal(sampled.begin() + rows, sampled.end(), read.begin() + rows));
    }
  }
}

TEST_CASE("changed priorities come after the client's own updates, in pages") {
  RunningServer server;
  TableSpec spec = spec_of(200'000);
  spec.sampler.priority_exponent = 1;
  Client client(options_of(server));
  const uint32_t table = client.open_table(spec);
  StreamWriter writer(client, table, spec, client.lease(table, 8), {});
  write(writer, 8, 0, 10'000);
  writer.flush();
  const uint64_t live = metric(client, "table.replay.live_items");
  REQUIRE(live > kMaxChanges);
  PriorityChanges changes;
  CHECK(client.new_priorities(table, changes));
  CHECK(changes.keys.size() == kMaxChanges);
  const std::vector<uint64_t> keys(changes.keys.begin(), changes.keys.begin() + 100);
  CHECK_FALSE(client.new_priorities(table, changes));
  CHECK(changes.keys.size() == live - kMaxChanges);
  client.update_priorities_async(table, keys, std::vector<float>(100, 3.0f));
  CHECK_FALSE(client.new_priorities(table, changes));
  CHECK(changes.keys == keys);
  CHECK(changes.priorities == std::vector<float>(100, 3.0f));
  client.new_priorities(table, changes);
  CHECK(changes.keys.empty());
}

TEST_CASE("what cannot be read is refused and named") {
  RunningServer server;
  const TableSpec spec = spec_of();
  Client client(options_of(server));
  const uint32_t table = client.open_table(spec);
  const SampleLayout layout(spec);
  std::vector<std::byte> reply(layout.total_bytes(1));
  const auto read = [&](uint32_t which, size_t count) {
    const std::vector<uint64_t> keys(count, 5);
    return error_of([&] { client.read_items(which, keys, reply, deadline_in(kPatienceNs)); });
  };
  CHECK(read(table, 0).status() == Status::config);
  CHECK(read(table, kMaxReadKeys + 1).status() == Status::config);
  CHECK(read(table + 1, 1).status() == Status::unknown_table);
  PriorityChanges changes;
  CHECK(error_of([&] { client.new_priorities(table + 1, changes); }).status() ==
        Status::unknown_table);
  // No shard holds the item: an answer, not an error.
  const std::vector<uint64_t> keys = {5};
  client.read_items(table, keys, reply, deadline_in(kPatienceNs));
  CHECK(keys_of(layout, reply, 1)[0] == kNoKey);
}

}  // namespace drlnet::test
