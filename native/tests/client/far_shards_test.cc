// Shards of one server in two processes: here their threads alone tell them apart.
#include <atomic>
#include <numeric>
#include <set>
#include <thread>

#include "client/bench.h"
#include "client/sharded_client.h"
#include "server/shards.h"

namespace drlnet::test {
namespace {

using Servers = std::vector<std::unique_ptr<Server>>;

class Running {
 public:
  explicit Running(Servers servers) : servers_(std::move(servers)) {
    for (const auto& server : servers_) threads_.emplace_back([&server] { server->run(); });
  }
  ~Running() {
    for (const auto& server : servers_) server->stop();
    for (std::thread& thread : threads_) thread.join();
  }
  Server& first() { return *servers_[0]; }
  std::string address() { return first().addresses()[0]; }

 private:
  Servers servers_;
  std::vector<std::thread> threads_;
};

ServerOptions options() { return {{"udp://127.0.0.1:0"}, Poll::block, 0}; }

// What brings a shard, and tells the directory of it until it ends.
class Elsewhere {
 public:
  explicit Elsewhere(const std::string& home)
      : client_({home, "shard", kPatienceNs, Poll::block}),
        running_(make_shards_of(client_.directory({.places = 1}), options(), 1)) {
    tell();
    telling_ = std::thread([this] {
      while (!ends_) {
        tell();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  ~Elsewhere() {
    ends_ = true;
    telling_.join();
  }

 private:
  void tell() {
    Shards& shards = *running_.first().shards();
    shards.hear(client_.directory(shards.tell()));
  }

  Client client_;
  Running running_;
  std::atomic<bool> ends_ = false;
  std::thread telling_;
};

uint64_t items_drawn(const std::vector<std::byte>& batch) {
  SampleHeader header;
  std::memcpy(&header, batch.data(), sizeof header);
  return header.items_drawn;
}

}  // namespace

TEST_CASE("shards elsewhere have places, and none where there is none") {
  Running home(make_shards(options(), 1, 1));
  Client client({home.address(), "asks", kPatienceNs, Poll::block});
  CHECK(client.shards() == 2);
  CHECK_THROWS_WITH_AS(client.directory({.places = 2}),
                       doctest::Contains("no place for 2 more shards"), Error);
  CHECK_THROWS_WITH_AS(client.directory({.places = 0xFFFFFFFF}),
                       doctest::Contains("no place for 4294967295 more shards"), Error);
  ClientOptions hurried{home.address(), "comes early", 200'000'000, Poll::block};
  CHECK_THROWS_WITH_AS(ShardedClient{hurried}, doctest::Contains("has not come"), Error);
  const Elsewhere shard(home.address());
  const DirectoryReply found = client.directory();
  REQUIRE(found.shards.size() == 2);
  CHECK(found.shards[0].address == "+0");
  CHECK(found.shards[1].address.starts_with("udp://127.0.0.1:"));
  CHECK_THROWS_AS(client.directory({.places = 1}), Error);
}

TEST_CASE("a client goes on from the address at which it found the first shard") {
  // Behind a bridge the server's own ports are others.
  CHECK(address_told("udp://[::1]:9000,buffer=65536", "+2") == "udp://[::1]:9002,buffer=65536");
  CHECK(address_told("memory:here", "+1") == "memory:here-shard1");
  CHECK(address_told("udp://127.0.0.1:9000", "udp://10.0.0.2:7447") == "udp://10.0.0.2:7447");
  const std::string nic = "dpdk:pci:0000:03:00.0,ip=10.7.0.1,to=10.7.0.2:7447";
  CHECK(address_told(nic, "+1") == "dpdk:pci:0000:03:00.0,ip=10.7.0.1,to=10.7.0.2:7448");
  CHECK(address_told(nic, "udp://10.7.0.9:80") ==
        "dpdk:pci:0000:03:00.0,ip=10.7.0.1,to=10.7.0.9:80");
  CHECK_THROWS_AS(address_told(nic, "+one"), Error);
}

TEST_CASE("a lost shard takes its items with it, and draws go on with true probabilities") {
  Running home(make_shards(options(), 1, 1));
  auto shard = std::make_unique<Elsewhere>(home.address());
  ShardedClient client({home.address(), "draws", kPatienceNs, Poll::block});
  REQUIRE(client.shards() == 2);
  TableSpec spec = spec_of();
  spec.limiter = {.min_size = 40, .samples_per_insert = 8, .error_buffer = 4000};
  const uint32_t table = client.open_table(spec);
  const auto first = client.writer(table, spec, 4, {}, {});
  std::set<uint32_t> homes;
  for (const Lease& lease : first->leases()) homes.insert(lease.ordinal % 2);
  CHECK(homes == std::set<uint32_t>{0, 1});
  const auto append = [&](ShardedWriter& writer, uint64_t steps) {
    write(writer, static_cast<uint32_t>(writer.leases().size()), 0, steps);
    writer.flush();
  };
  append(*first, 60);
  const uint32_t n = 400;
  const BatchLayout layout(spec, n);
  std::vector<std::byte> batch(layout.memory_bytes() + 2 * sizeof(uint64_t));
  const auto sum = [&] {
    std::vector<float> values(n);
    std::memcpy(values.data(), batch.data() + SampleLayout(spec).probabilities(n),
                n * sizeof(float));
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  const auto keys = [&] {
    std::vector<uint64_t> names(n);
    std::memcpy(names.data(), batch.data() + sizeof(SampleHeader), n * sizeof(uint64_t));
    return names;
  };
  client.sample(table, layout, batch, deadline_in(kPatienceNs));
  const double items = 4 * (60 - 60 / kSteps);
  CHECK(sum() == doctest::Approx(n / items).epsilon(1e-4));
  const auto before = keys();

  shard.reset();
  // Waits for the lost shard until the directory says that it is.
  client.sample(table, layout, batch, deadline_in(kPatienceNs));
  CHECK(sum() == doctest::Approx(2 * n / items).epsilon(1e-4));
  for (const uint64_t key : keys()) CHECK((key >> kKeyShardShift) == 0);
  const std::vector<float> ones(n, 1.0f);
  const UpdateResult updated = client.update_priorities(table, before, ones);
  CHECK(updated.applied + updated.stale == n);
  CHECK(updated.stale > 0);
  CHECK(updated.applied > 0);
  CHECK_THROWS_AS(append(*first, 400), ShardLost);
  first->release();
  const auto second = client.writer(table, spec, 4, {}, {});
  for (const Lease& lease : second->leases()) CHECK(lease.ordinal % 2 == 0);
  CHECK(home.first().shards()->lost().size() == 1);
  const uint64_t drawn = items_drawn(batch);
  client.sample(table, layout, batch, deadline_in(kPatienceNs));
  CHECK(items_drawn(batch) > drawn);
}

TEST_CASE("the limiter counts what goes on in other processes") {
  Running home(make_shards(options(), 1, 1));
  const Elsewhere shard(home.address());
  ShardedClient client({home.address(), "draws", kPatienceNs, Poll::block});
  TableSpec spec = spec_of();
  spec.limiter = {.min_size = 200, .samples_per_insert = 0, .error_buffer = 0};
  const uint32_t table = client.open_table(spec);
  const auto writer = client.writer(table, spec, 4, {}, {});
  write(*writer, 4, 0, 60);  // fewer than min_size at each
  writer->flush();
  const BatchLayout layout(spec, 32);
  std::vector<std::byte> batch(layout.memory_bytes() + 2 * sizeof(uint64_t));
  client.sample(table, layout, batch, deadline_in(kPatienceNs));
  CHECK(items_drawn(batch) <= 32);
}

}  // namespace drlnet::test
