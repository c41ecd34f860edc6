// Client against server, each on a thread of its own, over UDP on loopback: bare and through a
// network that drops, doubles and reorders 5% of all frames each way.
#include "client/client.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "base/world.h"
#include "client/bench.h"

namespace drlnet::test {

TEST_CASE("what is written is sampled, stored once, bare and through a faulty network") {
  for (const double fault : {0.0, 0.05}) {
    for (const uint64_t seed : {21, 22}) {
      CAPTURE(fault);
      CAPTURE(seed);
      RunningServer server;
      const TableSpec spec = spec_of();
      auto actor = client_of(server, fault, seed), learner = client_of(server, fault, seed + 50);
      const uint32_t table = actor->open_table(spec);
      REQUIRE(learner->open_table(spec) == table);
      StreamWriter writer(*actor, table, spec, actor->lease(table, 4), {});
      write(writer, 4, 0, 2000);
      writer.flush();
      CHECK(writer.rows_stored() == 8000);
      CHECK(metric(*learner, "table.replay.rows") == 8000);
      CHECK(metric(*learner, "table.replay.live_items") == 4 * 2000 / kSteps * (kSteps - 1));
      const SampleLayout layout(spec);
      for (const uint32_t n : {1u, 32u, 5000u}) {
        std::vector<std::byte> reply(layout.total_bytes(n));
        learner->sample(table, n, reply, deadline_in(kPatienceNs));
        check_sample(spec, reply, n);
        std::vector<uint64_t> keys(n);
        std::memcpy(keys.data(), reply.data() + layout.keys(n), n * 8);
        const auto result = learner->update_priorities(table, keys, std::vector<float>(n, 2.0f));
        CHECK(result.applied == n);
        CHECK(result.stale == 0);
      }
      const std::vector<std::byte> params(3'000'000, std::byte{7});
      CHECK(learner->publish(params) == 1);
      std::vector<std::byte> fetched;
      CHECK(actor->fetch(0, fetched) == 1);
      CHECK(fetched == params);
      CHECK(actor->fetch(1, fetched) == 0);
    }
  }
}

TEST_CASE("one client publishes, until it ends or another takes over") {
  RunningServer server;
  const std::vector<std::byte> params(700'000, std::byte{7});
  auto first = std::make_unique<Client>(options_of(server));
  Client second(options_of(server)), third(options_of(server));
  CHECK(first->publish(params) == 1);
  const auto publish = [&](Client& client) { return error_of([&] { client.publish(params); }); };
  CHECK(publish(second).status() == Status::another_publisher);
  CHECK(first->publish(params) == 2);
  second.take_over();
  CHECK(publish(*first).status() == Status::another_publisher);
  CHECK(second.publish(params) == 3);
  first->take_over();
  CHECK(first->publish(params) == 4);
  first.reset();  // its place is free
  CHECK(third.publish(params) == 5);
  CHECK(metric(third, "server.publishes_refused") == 2);
  CHECK(metric(third, "server.publishers_replaced") == 2);
}

TEST_CASE("a blob is what its last put said, whole, over a network with faults") {
  RunningServer server;
  auto writer = client_of(server, 0.2, 7), reader = client_of(server, 0.2, 8);
  std::vector<std::byte> found;
  CHECK(reader->get_blob("settings", 0, found) == 0);
  uint64_t version = 0;
  for (const size_t bytes : {100'000, 3, 0}) {
    const std::vector<std::byte> blob(bytes, std::byte{static_cast<uint8_t>(bytes)});
    const uint64_t newer = writer->put_blob("settings", blob);
    CHECK(newer > version);
    CHECK(reader->get_blob("settings", version, found) == newer);
    CHECK(found == blob);
    CHECK(reader->get_blob("settings", newer, found) == 0);
    version = newer;
  }
}

TEST_CASE("a stream of samples goes on through faults, its batches exact") {
  RunningServer server;
  const TableSpec spec = spec_of();
  auto client = client_of(server, 0.02, 31);
  const uint32_t table = client->open_table(spec);
  StreamWriter writer(*client, table, spec, client->lease(table, 2), {});
  write(writer, 2, 0, 500);
  writer.flush();
  const SampleLayout layout(spec);
  std::vector<std::vector<std::byte>> memory(4, std::vector<std::byte>(layout.total_bytes(2000)));
  SampleStream stream(*client, table, 2000, {memory.begin(), memory.end()});
  for (int i = 0; i < 60; ++i) {
    check_sample(spec, memory[stream.next(deadline_in(kPatienceNs))], 2000);
  }
}

TEST_CASE("an expired deadline names the limiter, and the network") {
  auto server = std::make_unique<RunningServer>();
  const TableSpec spec = spec_of();
  Client client(options_of(*server, 500'000'000));
  const uint32_t table = client.open_table(spec);
  const SampleLayout layout(spec);
  std::vector<std::byte> reply(layout.total_bytes(8));
  const auto sample = [&] { client.sample(table, 8, reply, deadline_in(500'000'000)); };
  Error error = error_of(sample);
  CHECK(error.status() == Status::timeout);
  CHECK(error.cause().find("the limiter: the table has fewer items than min_size") !=
        std::string::npos);
  std::vector<std::byte> item(layout.total_bytes(1));
  const uint64_t key = 0;
  error = error_of([&] { client.read_items(table, {&key, 1}, item, deadline_in(500'000'000)); });
  CHECK(error.cause().find("read_items: an earlier request of this client: sample: the limiter: "
                           "the table has fewer items than min_size") != std::string::npos);
  // Asking again and again is one request, and it is answered once there is something to draw.
  for (int i = 0; i < 40; ++i) {
    CHECK(error_of([&] { client.sample(table, 8, reply, now_ns()); }).status() == Status::timeout);
  }
  StreamWriter writer(client, table, spec, client.lease(table, 1), {});
  write(writer, 1, 0, 40);
  writer.flush();
  client.sample(table, 8, reply, deadline_in(kPatienceNs));
  check_sample(spec, reply, 8);
  CHECK(metric(client, "table.replay.items_drawn") == 8);
  const std::string address = server->address();
  server.reset();
  error = error_of([&] { client.ping_ns(); });
  CHECK(error.status() == Status::timeout);
  CHECK(error.cause().find("the network") != std::string::npos);
  // Another server on the same address is not the one that held our table.
  server = std::make_unique<RunningServer>(address);
  error = error_of([&] {
    for (int i = 0; i < 20; ++i) {
      try {
        client.ping_ns();
      } catch (const Error& attempt) {
        if (attempt.status() != Status::timeout) throw;
      }
    }
  });
  CHECK(error.status() == Status::session_lost);
  // Nor is our session, which has found that out, one of its clients.
  Client other(options_of(*server));
  CHECK(metric(other, "server.clients") == 1);
}

TEST_CASE("a server that dies while its limiter holds a request is not taken for the limiter") {
  auto server = std::make_unique<RunningServer>();
  const TableSpec spec = spec_of();
  Client client(options_of(*server));
  const uint32_t table = client.open_table(spec);
  const SampleLayout layout(spec);
  std::vector<std::byte> reply(layout.total_bytes(8));
  const auto cause_within = [&](uint64_t ns) {
    return error_of([&] { client.sample(table, 8, reply, deadline_in(ns)); }).cause();
  };
  CHECK(cause_within(200'000'000).find("the limiter") != std::string::npos);
  server.reset();
  // A client asks again after a second, then ever less often.
  CHECK(cause_within(10'000'000'000).find("the network: the server fell silent") !=
        std::string::npos);
}

TEST_CASE("nothing listens: the error says so") {
  std::string address;
  {
    address = RunningServer().address();
  }
  const Error error =
      error_of([&] { Client client({address, "test", 200'000'000, Poll::adaptive}); });
  CHECK(error.status() == Status::transport);
  CHECK(error.cause().find("nothing listens") != std::string::npos);
}

TEST_CASE(
    "a stream resumed by another client goes on at the expected step; the former holder's "
    "late append is ignored") {
  RunningServer server;
  const TableSpec spec = spec_of();
  Client first(options_of(server)), second(options_of(server));
  const uint32_t table = first.open_table(spec);
  second.open_table(spec);
  StreamWriter before(first, table, spec, first.lease(table, 1), {});
  write(before, 1, 0, 30);
  before.flush();
  const Lease lease = before.leases()[0];
  const StreamName name{lease.ordinal, lease.epoch, lease.token};
  const auto resumed = second.resume(table, {&name, 1});
  CHECK(resumed[0].next_step == 30);
  StreamWriter after(second, table, spec, resumed, {});
  write(after, 1, 30, 60);
  after.flush();
  write(before, 1, 30, 40);
  before.flush();
  CHECK(metric(first, "table.replay.rows") == 60);
  CHECK(metric(first, "table.replay.rows_ignored") == 10);
  const StreamName wrong{lease.ordinal, lease.epoch, lease.token + 1};
  CHECK(error_of([&] { second.resume(table, {&wrong, 1}); }).status() == Status::unknown_lease);
  second.release(table, {&name, 1});
  write(after, 1, 60, 61);
  CHECK(error_of([&] { after.flush(); }).status() == Status::unknown_lease);
}

TEST_CASE("a client that says goodbye leaves orphans, which a client with the token takes over") {
  RunningServer server;
  const TableSpec spec = spec_of();
  Client observer(options_of(server));
  std::vector<Lease> leases;
  {
    Client gone(options_of(server));
    const uint32_t table = gone.open_table(spec);
    StreamWriter writer(gone, table, spec, gone.lease(table, 3), {});
    write(writer, 3, 0, 10);
    writer.flush();
    leases = writer.leases();
  }
  const uint32_t table = observer.open_table(spec);
  CHECK(metric(observer, "table.replay.streams_orphaned") == 3);
  StreamWriter writer(observer, table, spec, leases, {});
  write(writer, 3, 10, 40);
  writer.flush();
  CHECK(metric(observer, "table.replay.streams_orphaned") == 0);
  CHECK(metric(observer, "table.replay.rows") == 120);
}

TEST_CASE("the limiter holds back appends, not the samples that release them") {
  LimiterSpec limiter;
  limiter.min_size = 100;
  limiter.samples_per_insert = 4;
  limiter.error_buffer = 400;
  RunningServer server;
  const TableSpec spec = spec_of(10'000, limiter);
  Client actor(options_of(server)), learner(options_of(server));
  const uint32_t table = actor.open_table(spec);
  learner.open_table(spec);
  std::thread writing([&] {
    StreamWriter writer(actor, table, spec, actor.lease(table, 1), {});
    write(writer, 1, 0, 2000);
    writer.flush();
  });
  const SampleLayout layout(spec);
  std::vector<std::byte> reply(layout.total_bytes(50));
  uint64_t drawn = 0;
  while (drawn < 4 * 1500) {
    learner.sample(table, 50, reply, deadline_in(kPatienceNs));
    check_sample(spec, reply, 50);
    drawn += 50;
    const uint64_t created = metric(learner, "table.replay.items_created");
    CHECK(std::abs(static_cast<double>(4 * created) - static_cast<double>(drawn)) <= 400 + 400);
  }
  // Let the rest of the appends in: every insertion needs its draws.
  while (metric(learner, "table.replay.rows") < 2000) {
    learner.sample(table, 50, reply, deadline_in(kPatienceNs));
  }
  writing.join();
}

TEST_CASE("a writer and its reader go on where the limiter takes fewer items than rows") {
  RunningServer server;
  const TableSpec spec = spec_of(10'000, {.samples_per_insert = 8, .error_buffer = 40, .batch = 8});
  Client client(options_of(server));
  const uint32_t table = client.open_table(spec);
  std::thread writing([&] {
    StreamWriter writer(client, table, spec, client.lease(table, 8), {});
    CHECK_NOTHROW(write(writer, 8, 0, 2 * kSteps));
    CHECK_NOTHROW(writer.flush());
  });
  std::vector<std::byte> reply(SampleLayout(spec).total_bytes(8));
  constexpr uint32_t kBatches = 2 * (kSteps - 1) * 8;  // as many as items; five fewer let all in
  for (uint32_t i = 0; i < kBatches - 2; ++i) {
    CHECK_NOTHROW(client.sample(table, 8, reply, deadline_in(kPatienceNs / 4)));
  }
  writing.join();
}

TEST_CASE("a long append that the limiter holds is not passed by short ones that came later") {
  LimiterSpec limiter;
  limiter.samples_per_insert = 4;
  limiter.error_buffer = 800;
  RunningServer server;
  const TableSpec spec = spec_of(10'000, limiter);
  Client patient(options_of(server)), hasty(options_of(server)), learner(options_of(server));
  const uint32_t table = patient.open_table(spec);
  hasty.open_table(spec);
  learner.open_table(spec);
  const auto held = [&] { return metric(learner, "table.replay.limiter_waits.inserts_limit"); };
  std::atomic<bool> through = false, ended = false;
  constexpr uint64_t kNeverNs = 3'600'000'000'000;
  std::thread long_writer([&] {
    StreamWriter writer(patient, table, spec, patient.lease(table, 1),
                        {.flush_rows = 150, .flush_interval_ns = kNeverNs});
    write(writer, 1, 0, 600);
    writer.flush();
    through = true;
  });
  while (held() == 0) std::this_thread::yield();
  std::thread short_writer([&] {
    StreamWriter writer(hasty, table, spec, hasty.lease(table, 1),
                        {.flush_rows = 5, .flush_interval_ns = kNeverNs});
    for (uint64_t step = 0; !through; step += kSteps) write(writer, 1, step, step + kSteps);
    ended = true;
  });
  while (held() == 1) std::this_thread::yield();
  // Room for five items at a time, which is what the short ones need.
  std::vector<std::byte> reply(SampleLayout(spec).total_bytes(20));
  int batches = 0;
  for (; !through && batches < 1000; ++batches) {
    learner.sample(table, 20, reply, deadline_in(kPatienceNs));
  }
  CHECK(through);
  through = true;
  // What the short ones still have under way goes in by the draws that it waits for.
  while (!ended) {
    if (metric(learner, "server.waiting_requests") == 0) continue;
    learner.sample(table, 20, reply, deadline_in(kPatienceNs));
  }
  short_writer.join();
  long_writer.join();
}

TEST_CASE("a writer without room for an append, for those of another, is told that they are held") {
  struct Held {};
  LimiterSpec limiter;
  limiter.samples_per_insert = 4;
  limiter.error_buffer = 40;
  RunningServer server;
  const TableSpec spec = spec_of(10'000, limiter);
  Client client(options_of(server));
  const uint32_t table = client.open_table(spec);
  const WriterOptions options{
      .flush_rows = kSteps, .timeout_ns = 2'000'000'000, .held = [](uint64_t) { throw Held{}; }};
  StreamWriter one(client, table, spec, client.lease(table, 1), options);
  StreamWriter other(client, table, spec, client.lease(table, 1), options);
  CHECK_THROWS_AS(write(one, 1, 0, 100 * kSteps), Held);  // it has all of the lane by then
  CHECK_THROWS_AS(write(other, 1, 0, kSteps), Held);
}

TEST_CASE("an append behind one of another table waits for that one's limiter, and says so") {
  struct Held {};
  LimiterSpec limiter;
  limiter.samples_per_insert = 4;
  limiter.error_buffer = 40;
  RunningServer server;
  const TableSpec spec = spec_of(10'000, limiter);
  TableSpec free = spec_of();
  free.name = "free";
  Client client(options_of(server));
  const uint32_t table = client.open_table(spec), other = client.open_table(free);
  StreamWriter ahead(client, table, spec, client.lease(table, 1), {.flush_rows = kSteps});
  write(ahead, 1, 0, 4 * kSteps);
  run_until([&] { return metric(client, "table.replay.limiter_waits.inserts_limit") > 0; }, [] {});
  StreamWriter behind(client, other, free, client.lease(other, 1), {.timeout_ns = 500'000'000});
  write(behind, 1, 0, kSteps);
  CHECK(error_of([&] { behind.flush(); })
            .cause()
            .find("append: an earlier request of this client: append: the limiter: insertions are "
                  "ahead of draws") != std::string::npos);
  StreamWriter patient(client, other, free, client.lease(other, 1),
                       {.timeout_ns = 500'000'000, .held = [](uint64_t) { throw Held{}; }});
  write(patient, 1, 0, kSteps);
  CHECK_THROWS_AS(patient.flush(), Held);
}

TEST_CASE("another specification is refused and named; bad priorities are, and lose nothing") {
  RunningServer server;
  const TableSpec spec = spec_of();
  Client client(options_of(server));
  const uint32_t table = client.open_table(spec);
  TableSpec other = spec;
  other.columns[0].shape = {4};
  const Error mismatch = error_of([&] { client.open_table(other); });
  CHECK(mismatch.status() == Status::table_mismatch);
  CHECK(mismatch.cause().find("column 'obs': float32[4] here, float32[3] at the server") !=
        std::string::npos);
  StreamWriter writer(client, table, spec, client.lease(table, 1), {});
  write(writer, 1, 0, 40);
  writer.flush();
  std::vector<std::byte> reply(SampleLayout(spec).total_bytes(4));
  client.sample(table, 4, reply, deadline_in(1'000'000'000));
  std::vector<uint64_t> keys(4);
  std::memcpy(keys.data(), reply.data() + sizeof(SampleHeader), 32);
  for (const float bad : {NAN, INFINITY, -1.0f}) {
    const std::vector<float> priorities = {1, 1, bad, 1};
    CHECK(error_of([&] { client.update_priorities(table, keys, priorities); }).status() ==
          Status::bad_priority);
  }
  CHECK(metric(client, "table.replay.applied_updates") == 0);
  CHECK(metric(client, "table.replay.live_items") == 38);
}

}  // namespace drlnet::test
