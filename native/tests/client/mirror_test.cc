#include "client/mirror.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "client/bench.h"
#include "spec/items.h"

namespace drlnet::test {
namespace {

// A server of some shards, a session with each, and a table that is followed.
struct Fixture {
  Fixture(uint32_t shards, double fault, const TableSpec& table_spec = spec_of(), Rank rank = {},
          bool index_only = false)
      : server(shards, index_only), clients(server.clients(fault, 3)), spec(table_spec) {
    mirrored = follow(fault, rank);
  }
  std::unique_ptr<MirroredTable> follow(double fault = 0, Rank rank = {}) {
    std::vector<Client*> sessions;
    for (const auto& client : clients) sessions.push_back(client.get());
    const auto connect = [&](uint32_t shard, std::function<void()> interrupt) {
      return server.client(shard, fault, 7, std::move(interrupt));
    };
    return std::make_unique<MirroredTable>(sessions, spec, rank, connect, nullptr);
  }
  ShardedTable& table() { return mirrored->table(); }
  void write_to(uint32_t shard, uint32_t streams, uint64_t from, uint64_t to) {
    Client& client = *clients[shard];
    const uint32_t number = table().number(shard);
    if (writers.size() <= shard) writers.resize(shard + 1);
    if (!writers[shard]) {
      writers[shard] = std::make_unique<StreamWriter>(
          client, number, spec, client.lease(number, streams), WriterOptions{});
    }
    write(*writers[shard], streams, from, to);
    writers[shard]->flush();
  }
  // The same items as the server itself gives them.
  void check_against_server(const BatchLayout& layout, std::span<const std::byte> batch) {
    std::vector<uint64_t> keys(layout.count());
    std::memcpy(keys.data(), batch.data() + layout.reply().keys(keys.size()), 8 * keys.size());
    std::vector<std::byte> read(layout.memory_bytes());
    clients[0]->read_items(table().number(0), keys, layout.destination(read),
                           deadline_in(kPatienceNs));
    const uint64_t lengths = layout.reply().lengths(keys.size());
    REQUIRE(std::ranges::equal(batch.subspan(lengths, layout.memory_bytes() - lengths),
                               std::span(read).subspan(lengths)));
  }

  RunningShards server;
  std::vector<std::unique_ptr<Client>> clients;
  TableSpec spec;
  std::vector<std::unique_ptr<StreamWriter>> writers;
  std::unique_ptr<MirroredTable> mirrored;
};

uint64_t figure(MirroredTable& table, const std::string& name) {
  Metrics metrics;
  table.mirror().read_metrics(metrics);
  for (const auto& [key, value] : metrics.list()) {
    if (key == name) return std::get<uint64_t>(value);
  }
  FAIL("no figure of that name: " << name);
  return 0;
}

}  // namespace

TEST_CASE("batches of a mirror are those of the server, bit by bit, whatever the network does") {
  for (const double fault : {0.0, 0.1}) {
    for (const uint32_t n : {1u, 7u, 2000u}) {
      CAPTURE(fault);
      CAPTURE(n);
      // Goes round its ring several times.
      Fixture here(1, fault, spec_of(3000));
      const BatchLayout layout(here.spec, n);
      std::vector<std::byte> batch(here.table().bytes(layout));
      for (uint64_t round = 0; round < 4; ++round) {
        here.write_to(0, 4, 1000 * round, 1000 * round + 1000);
        here.table().sample(layout, batch, deadline_in(kPatienceNs));
        check_sample(here.spec, batch, n);
        here.check_against_server(layout, batch);
      }
      std::vector<std::vector<std::byte>> memory(3, batch);
      std::vector<std::span<std::byte>> buffers(memory.begin(), memory.end());
      ShardedStream stream(here.table(), layout, buffers);
      for (int round = 0; round < 5; ++round) {
        const auto next = buffers[stream.next(deadline_in(kPatienceNs))];
        check_sample(here.spec, next, n);
        here.check_against_server(layout, next);
      }
    }
  }
}

TEST_CASE("rows travel once, however often they are drawn") {
  Fixture here(1, 0);
  here.write_to(0, 4, 0, 500);
  const BatchLayout layout(here.spec, 1000);
  std::vector<std::byte> batch(here.table().bytes(layout));
  for (int i = 0; i < 20; ++i) here.table().sample(layout, batch, deadline_in(kPatienceNs));
  CHECK(figure(*here.mirrored, "mirror.rows") == 2000);
  CHECK(figure(*here.mirrored, "mirror.replaced") == 0);
  // Twenty replies with rows are 1.3 MB, 2000 rows 32 KB, and twenty of references 0.8 MB.
  CHECK(layout.reply().reference_bytes(1000, 4) < layout.reply().total_bytes(1000));
}

TEST_CASE("shards are mirrored together, over any network") {
  for (const double fault : {0.0, 0.1}) {
    CAPTURE(fault);
    Fixture here(3, fault);
    for (uint32_t shard = 0; shard < 3; ++shard) here.write_to(shard, 2, 0, 100);
    const BatchLayout layout(here.spec, 2000);
    std::vector<std::byte> batch(here.table().bytes(layout));
    for (int round = 0; round < 3; ++round) {
      here.table().sample(layout, batch, deadline_in(kPatienceNs));
      check_sample(here.spec, batch, 2000);
    }
    CHECK(figure(*here.mirrored, "mirror.rows") == 600);
  }
}

TEST_CASE("as many ranks as shards share them out, with the probabilities of one draw") {
  Fixture here(2, 0, spec_of(), {0, 2});
  const auto other = here.follow(0, {1, 2});
  for (uint32_t shard = 0; shard < 2; ++shard) here.write_to(shard, 2 + shard, 0, 100);
  constexpr uint32_t kItems = 500;
  const BatchLayout layout(here.spec, kItems);
  std::vector<std::byte> batch(here.table().bytes(layout));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    MirroredTable& own = rank == 0 ? *here.mirrored : *other;
    own.table().sample(layout, batch, deadline_in(kPatienceNs));
    check_sample(here.spec, batch, kItems);
    SampleHeader header;
    std::memcpy(&header, batch.data(), sizeof header);
    CHECK(header.item_count == 5 * 95);  // of both shards
    for (uint32_t i = 0; i < kItems; ++i) {
      uint64_t key;
      float probability;
      std::memcpy(&key, batch.data() + layout.reply().keys(kItems) + 8 * i, sizeof key);
      std::memcpy(&probability, batch.data() + layout.reply().probabilities(kItems) + 4 * i,
                  sizeof probability);
      REQUIRE((key >> kKeyShardShift) == rank);
      REQUIRE(probability == doctest::Approx(0.5 / (95.0 * (2 + rank))));
    }
  }
  // Each has its own shard's rows, and no others.
  CHECK(figure(*here.mirrored, "mirror.rows") == 200);
  CHECK(figure(*other, "mirror.rows") == 300);
  CHECK(error_of([&] { here.follow(0, {2, 2}); }).status() == Status::config);
}

TEST_CASE(
    "a follower that comes later has what the ring holds, and two do not disturb each other") {
  Fixture here(1, 0, spec_of(1500));
  here.write_to(0, 2, 0, 2000);
  const auto later = here.follow();
  const BatchLayout layout(here.spec, 300);
  std::vector<std::byte> batch(here.table().bytes(layout));
  for (MirroredTable* each : {later.get(), here.mirrored.get()}) {
    each->table().sample(layout, batch, deadline_in(kPatienceNs));
    check_sample(here.spec, batch, 300);
    here.check_against_server(layout, batch);
  }
  CHECK(figure(*here.mirrored, "mirror.rows") >= 1500);
  CHECK(figure(*later, "mirror.rows") == 1500);
}

TEST_CASE("draws go on while rows come at full rate, and go") {
  Fixture here(1, 0, spec_of(1000));
  here.write_to(0, 4, 0, 500);
  std::atomic<bool> enough = false;
  std::thread actor([&] {
    const auto client = here.server.client(0, 0, 1);
    const uint32_t number = client->open_table(here.spec);
    StreamWriter writer(*client, number, here.spec, client->lease(number, 8), {});
    for (uint64_t step = 0; !enough; step += kSteps) write(writer, 8, step, step + kSteps);
    writer.flush();
  });
  const BatchLayout layout(here.spec, 200);
  std::vector<std::vector<std::byte>> memory(9, std::vector<std::byte>(here.table().bytes(layout)));
  std::vector<std::span<std::byte>> buffers(memory.begin(), memory.end());
  ShardedStream stream(here.table(), layout, buffers);
  // What is drawn eight batches ahead is often gone when its turn comes: it is replaced.
  run_until([&] { return figure(*here.mirrored, "mirror.replaced") > 1000; },
            [&] {
              const auto next = buffers[stream.next(deadline_in(kPatienceNs))];
              check_sample(here.spec, next, 200);
              const uint64_t rows = figure(*here.mirrored, "mirror.rows");
              run_until([&] { return figure(*here.mirrored, "mirror.rows") > rows + 500; },
                        [] { spin_pause(); });
            });
  enough = true;
  actor.join();
}

TEST_CASE("what a draw waits for is said: items, or rows on their way") {
  Fixture here(1, 0);
  const BatchLayout layout(here.spec, 10);
  std::vector<std::byte> batch(here.table().bytes(layout));
  const auto draw = [&] { here.table().sample(layout, batch, deadline_in(300'000'000)); };
  CHECK(error_of(draw).cause().find("min_size") != std::string::npos);

  RowMirror rows(here.spec);
  const Error error = error_of([&] { rows.wait_for(0, 0, 5, deadline_in(1'000'000), {}); });
  CHECK(error.status() == Status::timeout);
  CHECK(error.cause().find("for the mirror: 5 rows of a drawn batch are on their way") !=
        std::string::npos);
  CHECK(error_of([&] { rows.store({}); }).status() == Status::protocol);

  // The draw that ran into its deadline answers the next one.
  here.write_to(0, 1, 0, 10);
  here.table().sample(layout, batch, deadline_in(kPatienceNs));
  check_sample(here.spec, batch, 10);
}

TEST_CASE("a mirror that cannot be is refused, and one of a table that goes ends") {
  Fixture here(1, 0);
  const auto refused = [&](const TableSpec& spec) {
    return error_of(
        [&] { Mirror(spec, {0}, {}, [](auto, auto) { return nullptr; }, nullptr, {}); });
  };
  CHECK(refused(spec_of(100, {.max_times_sampled = 1})).cause().find("queue") != std::string::npos);
  struct Enough {};
  const auto silent = [](auto, const auto& interrupt) -> std::unique_ptr<Client> {
    interrupt();  // as a session does that no server answers
    return nullptr;
  };
  CHECK_THROWS_AS(Mirror(here.spec, {0}, {}, silent, [] { throw Enough(); }, {}), Enough);
  const Error large = refused(spec_of(uint64_t{1} << 46));
  CHECK(large.status() == Status::config);
  CHECK(large.cause().find("a mirror of table 'replay' takes 1073741824 MiB of memory") !=
        std::string::npos);
  CHECK(large.remedy().find("lower its capacity to some ") == 0);

  here.clients[0]->drop_table(here.table().number(0));
  RowMirror rows(here.spec);
  rows.fail(std::make_exception_ptr(Error(Status::table_dropped, "gone", "open another")));
  CHECK(error_of([&] { rows.wait_for(0, 0, 1, deadline_in(kPatienceNs), {}); }).status() ==
        Status::table_dropped);
  const BatchLayout layout(here.spec, 10);
  std::vector<std::byte> batch(here.table().bytes(layout));
  CHECK(error_of([&] { here.table().sample(layout, batch, deadline_in(kPatienceNs)); }).status() ==
        Status::table_dropped);
}

TEST_CASE("a mirror ends while rows come without a pause") {
  Fixture here(1, 0);
  const auto client = here.server.client(0, 0, 5);
  StreamWriter writer(*client, here.table().number(0), here.spec,
                      client->lease(here.table().number(0), 1), WriterOptions{});
  std::atomic<bool> ended = false;
  std::thread writing([&] {
    const uint64_t late_ns = now_ns() + kPatienceNs / 2;
    for (uint64_t i = 0; !ended && now_ns() < late_ns; ++i) {
      write(writer, 1, i, i + 1);
      writer.flush();
    }
  });
  run_until([&] { return figure(*here.mirrored, "mirror.rows") > 1000; },
            [] { std::this_thread::yield(); });
  const uint64_t began_ns = now_ns();
  here.mirrored.reset();
  CHECK(now_ns() - began_ns < kPatienceNs / 4);
  ended = true;
  writing.join();
}

TEST_CASE("a late mirror draws at once, with the chances among what it has") {
  TableSpec spec = spec_of(60'000);  // in runs of 16,384 rows
  Fixture here(1, 0, spec);
  here.write_to(0, 4, 0, 15'000);
  const BatchLayout layout(spec, 64);
  const uint64_t all = 4 * 15'000, items = all - all / kSteps;
  std::vector<std::byte> batch(here.table().bytes(layout));
  // How far it has come by the first draw is the threads' own affair; it is seldom everything.
  bool early = false;
  for (int tries = 0; tries < 200 && !early; ++tries) {
    const auto late = here.follow();
    late->table().sample(layout, batch, deadline_in(kPatienceNs));
    check_sample(spec, batch, 64);
    here.check_against_server(layout, batch);
    std::vector<uint64_t> keys(64);
    std::vector<float> chances(64);
    std::memcpy(keys.data(), batch.data() + layout.reply().keys(64), 8 * 64);
    std::memcpy(chances.data(), batch.data() + layout.reply().probabilities(64), 4 * 64);
    const double among = 1 / static_cast<double>(chances[0]);
    for (const float chance : chances) REQUIRE(chance == chances[0]);  // of equal priorities
    early = among < 0.9 * static_cast<double>(items);
    if (early) {
      // One in kSteps rows of a stream has no item.
      const double rows = among * kSteps / (kSteps - 1);
      const auto oldest = static_cast<double>(all) - rows - 4 * kSteps;
      for (const uint64_t key : keys) {
        REQUIRE(static_cast<double>(key & ((uint64_t{1} << kKeyNumberBits) - 1)) >= oldest);
      }
    }
    late->mirror().wait_until_whole(deadline_in(kPatienceNs));
    CHECK(figure(*late, "mirror.rows") == all);
    CHECK(figure(*late, "mirror.replaced") == 0);
    late->table().sample(layout, batch, deadline_in(kPatienceNs));
    std::memcpy(chances.data(), batch.data() + layout.reply().probabilities(64), 4 * 64);
    CHECK(1 / static_cast<double>(chances[0]) == doctest::Approx(static_cast<double>(items)));
  }
  CHECK(early);
}

TEST_CASE("a mirror that has no item's rows draws none, and holds no append up") {
  const TableSpec spec =
      spec_of(4096, {.min_size = 1, .samples_per_insert = 8, .error_buffer = 200});
  Fixture here(1, 0, spec, {}, true);
  here.write_to(0, 1, 0, kSteps);  // balance: 8 x (19 - 1)
  const std::vector<float> none(4);
  const std::byte* columns[] = {reinterpret_cast<const std::byte*>(none.data()),
                                reinterpret_cast<const std::byte*>(none.data())};
  std::vector<int64_t> steps(1);
  for (int row = 0; row < 1300; ++row) {  // more than the server keeps
    here.writers[0]->append(columns, std::array<uint8_t, 1>{row == 0}, std::array<uint8_t, 1>{}, {},
                            steps);
  }
  here.writers[0]->flush();
  const auto late = here.follow();
  const BatchLayout layout(spec, 100);
  std::vector<std::byte> batch(late->table().bytes(layout));
  const Error error =
      error_of([&] { late->table().sample(layout, batch, deadline_in(500'000'000)); });
  CHECK(error.cause() == "the mirror: no item has all of its rows here yet");
  CHECK(metric(*here.clients[0], "table.replay.items_drawn") == 0);
  std::thread held([&] {  // until draws were passed over
    for (int64_t row = 0; row < 10; ++row) {
      here.writers[0]->append(columns, std::array<uint8_t, 1>{}, std::array<uint8_t, 1>{}, {},
                              steps);
      here.writers[0]->add_items(std::array<int64_t, 1>{}, steps, {});
    }
    here.writers[0]->flush();
  });
  late->table().sample(layout, batch, deadline_in(kPatienceNs));
  held.join();
  CHECK(metric(*here.clients[0], "table.replay.items_drawn") == 100);
}

}  // namespace drlnet::test
