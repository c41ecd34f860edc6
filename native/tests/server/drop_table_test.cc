// Tables that are dropped while all kinds of requests for them are under way.
#include <atomic>

#include "client/bench.h"
#include "client/sharded_client.h"

namespace drlnet::test {
namespace {

constexpr LimiterSpec kOnce{.max_times_sampled = 1};

// Its columns are others than spec_of()'s.
TableSpec other_spec(const std::string& name) {
  TableSpec spec;
  spec.name = name;
  spec.capacity = 500;
  spec.columns = {{"x", DataType::i64, {}}};
  spec.item.views = {{"x", 0, 0, 0, Pad::repeat, Align::anchor}};
  return spec;
}

const auto refuses = [](Status status, std::span<const std::byte> reply) {
  throw_if_refused(status, reply);
};

void check_dropped(const Error& error) {
  CHECK(error.status() == Status::table_dropped);
  CHECK(error.cause() == "table 'replay' was dropped");
  CHECK_FALSE(error.remedy().empty());
}

// Another client has dropped the table, or has made another one of that name.
void check_gone(const Error& error) {
  const Status status = error.status();
  if (status != Status::table_dropped) CHECK(status == Status::table_mismatch);
}

// What ends a thread of its own.
class Failing {
 public:
  explicit Failing(std::function<void()> action)
      : thread_([this, action = std::move(action)] { error_ = error_of(action); }) {}
  Error join() {
    thread_.join();
    return error_;
  }

 private:
  Error error_{Status::ok, "", ""};
  std::thread thread_;
};

std::unique_ptr<ShardedClient> client_at(const std::string& address) {
  return std::make_unique<ShardedClient>(
      ClientOptions{address, "test", kPatienceNs, Poll::adaptive});
}

std::vector<std::byte> memory_of(const ShardedClient& client, const BatchLayout& layout) {
  const size_t heads = client.shards() > 1 ? client.shards() : 0;
  return std::vector<std::byte>(layout.memory_bytes() + heads * sizeof(SampleHeader::head));
}

uint64_t sum(ShardedClient& client, const std::string& name) {
  uint64_t all = 0;
  for (const Metrics& metrics : client.stats()) {
    for (const auto& [key, value] : metrics.list()) {
      if (key == name) all += std::get<uint64_t>(value);
    }
  }
  return all;
}

// A stream of two at each of two shards, or both at a server that is alone.
void write_all(ShardedWriter& writer, uint64_t from, uint64_t to) {
  std::vector<int64_t> steps(2);
  for (uint64_t t = from; t < to; ++t) {
    std::vector<float> obs(6, static_cast<float>(t)), reward(2, static_cast<float>(t));
    const std::vector<uint8_t> first(2, t % kSteps == 0), last(2, t % kSteps == kSteps - 1);
    const std::byte* columns[] = {reinterpret_cast<std::byte*>(obs.data()),
                                  reinterpret_cast<std::byte*>(reward.data())};
    writer.append(columns, first, last, {}, steps);
    const std::vector<int64_t> streams = {0, 1};
    if (t % kSteps != kSteps - 1) writer.add_items(streams, steps, {});
  }
  writer.flush();
}

// Held appends and a waiting draw are refused, memory is free, and the name another table's.
void drop_while_all_wait(const std::string& address) {
  const auto client = client_at(address), appending = client_at(address),
             drawing = client_at(address);
  const TableSpec spec = spec_of(200, kOnce), kept = other_spec("kept");
  const uint32_t table = client->open_table(spec);
  client->open_table(kept);
  const uint64_t with_both = sum(*client, "server.memory_bytes");
  CHECK(appending->open_table(spec) == table);
  CHECK(drawing->open_table(spec) == table);
  const auto writer = appending->writer(table, spec, 2, {}, {});
  write_all(*writer, 0, 60);
  Failing appends([&] { write_all(*writer, 60, 400); });  // more than a full queue takes
  const BatchLayout layout(spec, 1000);                   // more than there is
  std::vector<std::byte> batch = memory_of(*drawing, layout);
  Failing draw([&] { drawing->sample(table, layout, batch, deadline_in(kPatienceNs)); });
  // An append at each shard that the writer has a stream at, and a draw's part at every shard.
  run_until([&] { return sum(*client, "server.waiting_requests") >= 2 * client->shards(); },
            [] { std::this_thread::yield(); });
  CHECK(sum(*client, "server.memory_bytes") == with_both);

  client->drop_table(table);
  check_dropped(appends.join());
  check_dropped(draw.join());
  CHECK(sum(*client, "server.waiting_requests") == 0);
  const uint64_t without = sum(*client, "server.memory_bytes");
  CHECK(without < with_both);
  CHECK(client->first().list_tables() == std::vector<TableSpec>{kept});

  // Handles of old know it, whatever they ask for.
  client->drop_table(table);
  check_dropped(error_of([&] { client->empty_table(table); }));
  check_dropped(error_of([&] { client->writer(table, spec, 1, {}, {}); }));
  check_dropped(error_of([&] { writer->release(); }));
  const std::vector<uint64_t> keys = {1};
  const std::vector<float> priorities = {1};
  check_dropped(error_of([&] { client->update_priorities(table, keys, priorities); }));
  PriorityChanges changes;
  check_dropped(error_of([&] { client->new_priorities(table, 0, changes); }));

  const TableSpec renewed = other_spec("replay");
  const uint32_t number = client->open_table(renewed);
  CHECK(number != table);
  check_dropped(error_of([&] { drawing->sample(table, layout, batch, deadline_in(kPatienceNs)); }));
  CHECK(error_of([&] { client->open_table(spec); }).status() == Status::table_mismatch);
  client->drop_table(number);
  CHECK(sum(*client, "server.memory_bytes") == without);
}

}  // namespace

TEST_CASE("whatever waits for a table that is dropped is refused") {
  const RunningServer server;
  drop_while_all_wait(server.address());
  const RunningShards shards(2);
  drop_while_all_wait(shards.address());
}

TEST_CASE("what a client remembers of a dropped table's changes is given back, too") {
  const RunningServer server;
  Client client(options_of(server));
  const uint32_t table = client.open_table(spec_of());
  PriorityChanges changes;
  client.new_priorities(table, changes);
  client.drop_table(table);
  CHECK(metric(client, "server.memory_bytes") == 0);
}

TEST_CASE("a reply under way when its table is dropped is given up, and says why") {
  Server server({.listen = {"memory:"}});
  const ClientOptions options{server.addresses()[0], "test", kPatienceNs, Poll::adaptive};
  const auto turn = [&] { return server.poll_once(); };
  Client client(options, {}, turn), other(options, {}, turn);
  const TableSpec spec = spec_of();
  constexpr uint32_t kItems = 50'000;
  std::vector<std::byte> batch(SampleLayout(spec).total_bytes(kItems));
  // What has come by then: nothing, the frames that come unasked, some that were pulled.
  for (const int rounds : {0, 1, 2, 5}) {
    CAPTURE(rounds);
    const uint32_t table = client.open_table(spec);
    StreamWriter writer(client, table, spec, client.lease(table, 2), {});
    write(writer, 2, 0, 100);
    writer.flush();
    const CallId id = client.start(
        Operation::sample, deadline_in(kPatienceNs),
        [&](auto& body) { ByteWriter(body).put(SampleRequest{table, kItems}); },
        Destination(batch));
    while (server.poll_once()) {
    }
    for (int i = 0; i < rounds; ++i) CHECK_FALSE(client.finished(id));
    other.drop_table(table);
    check_dropped(error_of([&] { client.collect(id, deadline_in(kPatienceNs), refuses); }));
    CHECK(other.ping_ns() > 0);
  }
}

TEST_CASE("long batches and a dropped table, on any network") {
  for (const double fault : {0.0, 0.1}) {
    CAPTURE(fault);
    const RunningServer server;
    const auto drawing = client_of(server, fault, 3), client = client_of(server, 0, 4);
    const TableSpec spec = spec_of();
    constexpr uint32_t kItems = 20'000;
    std::vector<std::byte> batch(SampleLayout(spec).total_bytes(kItems));
    for (int round = 0; round < 10; ++round) {
      const uint32_t table = client->open_table(spec);
      StreamWriter writer(*client, table, spec, client->lease(table, 2), {});
      write(writer, 2, 0, 100);
      writer.flush();
      std::atomic<int> drawn = 0;
      Failing draws([&] {
        for (;; ++drawn)
          drawing->sample(table, kItems, Destination(batch), deadline_in(kPatienceNs));
      });
      run_until([&] { return drawn > round % 3; }, [] { std::this_thread::yield(); });
      client->drop_table(table);
      check_dropped(draws.join());
    }
    CHECK(metric(*client, "server.memory_bytes") == 0);
  }
}

TEST_CASE("a session that ends between a drop and the refusal of its requests leaves none behind") {
  Server server({.listen = {"memory:"}});
  const ClientOptions options{server.addresses()[0], "test", kPatienceNs, Poll::adaptive};
  const auto turn = [&] { return server.poll_once(); };
  Client client(options, {}, turn);
  const TableSpec spec = spec_of();
  const uint32_t table = client.open_table(spec);
  std::vector<std::byte> batch(SampleLayout(spec).total_bytes(1));
  auto waiting = std::make_unique<Client>(options, std::function<void()>(), turn);
  CHECK(error_of([&] {
          waiting->sample(table, 1, Destination(batch), deadline_in(1'000'000));
        }).status() == Status::timeout);
  CHECK(metric(client, "server.waiting_requests") == 1);
  // In one round of the server's: our drop, and the other client's bye.
  const CallId drop = client.start(Operation::drop_table, deadline_in(kPatienceNs),
                                   [&](auto& body) { ByteWriter(body).put(table); });
  waiting.reset();
  client.collect(drop, deadline_in(kPatienceNs), refuses);
  CHECK(metric(client, "server.waiting_requests") == 0);
  CHECK(metric(client, "server.memory_bytes") == 0);
}

TEST_CASE("clients that open, use and drop one name at once leave a server that is sound") {
  for (const bool sharded : {false, true}) {
    CAPTURE(sharded);
    const auto alone = sharded ? nullptr : std::make_unique<RunningServer>();
    const auto shards = sharded ? std::make_unique<RunningShards>(3) : nullptr;
    const std::string address = sharded ? shards->address() : alone->address();
    std::atomic<bool> ended = false;
    std::atomic<int> refused = 0, sound = 0;
    std::vector<std::thread> users;
    for (int user = 0; user < 2; ++user) {
      users.emplace_back([&, user] {
        const auto client = client_at(address);
        const TableSpec spec = spec_of(user == 0 ? 400 : 600);
        const BatchLayout layout(spec, 50);
        std::vector<std::byte> batch = memory_of(*client, layout);
        while (!ended) {
          try {
            const uint32_t table = client->open_table(spec);
            const auto writer = client->writer(table, spec, 2, {}, {});
            write_all(*writer, 0, 40);
            client->sample(table, layout, batch, deadline_in(kPatienceNs));
            writer->release();
            ++sound;
          } catch (const Error& error) {
            check_gone(error);
            ++refused;
          }
        }
      });
    }
    const auto client = client_at(address);
    const TableSpec spec = spec_of(500);
    run_until([&] { return refused > 20 && sound > 5; },
              [&] {
                for (const TableSpec& open : client->first().list_tables()) {
                  try {
                    client->drop_table(client->open_table(open));
                  } catch (const Error& error) {
                    check_gone(error);
                  }
                }
              });
    ended = true;
    for (std::thread& user : users) user.join();
    for (const TableSpec& open : client->first().list_tables()) {
      client->drop_table(client->open_table(open));
    }
    CHECK(sum(*client, "server.memory_bytes") == 0);
    CHECK(sum(*client, "server.waiting_requests") == 0);
  }
}

}  // namespace drlnet::test
