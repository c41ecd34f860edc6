// What a server that keeps its state promises of its next life.
#include <filesystem>
#include <limits>

#include "client/bench.h"
#include "client/sharded_client.h"
#include "storage/saved_table.h"

namespace drlnet::test {
namespace {

class KeepingServer {
 public:
  // It writes what changes once the test is over, but for what cannot wait.
  explicit KeepingServer(const Path& folder, uint32_t shards = 1, SamplerChoice sampler = {}) {
    ServerOptions options{{"udp://127.0.0.1:0"}, Poll::adaptive, 0, std::move(sampler)};
    options.state_folder = folder.string();
    options.durability_ns = uint64_t{3600} * 1'000'000'000;
    servers_ = make_shards(options, shards);
    for (const auto& server : servers_) threads_.emplace_back([&server] { server->run(); });
    client = std::make_unique<ShardedClient>(
        ClientOptions{servers_[0]->addresses()[0], "test", kPatienceNs, Poll::adaptive});
  }
  ~KeepingServer() {
    for (const auto& server : servers_) server->stop();
    for (std::thread& thread : threads_) thread.join();
  }
  std::vector<std::string> notes(uint32_t shard) const { return servers_[shard]->state_notes(); }

  std::unique_ptr<ShardedClient> client;

 private:
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::thread> threads_;
};

void copy_all(const Path& from, const Path& to) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

const std::vector<std::string> kGivenUp = {
    "0 rows of table 'replay' are given up: the first shard has it no more"};
// A server in the thread of its client, which is killed before it writes a row.
class KilledServer {
 public:
  KilledServer() {
    start("udp://127.0.0.1:0");
    client = std::make_unique<Client>(
        ClientOptions{server_->addresses()[0], "test", kPatienceNs, Poll::adaptive},
        [this] {
          if (is_silent()) throw Interrupt{};
        },
        [this] { return !is_silent() && server_->poll_once(); });
  }
  struct Interrupt {};  // of a client that waits for a server that does not answer

  void start_again() {
    const std::string address = server_->addresses()[0];
    server_.reset();
    start(address);
  }

  std::unique_ptr<Client> client;
  uint64_t most_rows = std::numeric_limits<uint64_t>::max();  // once it has these it is silent

 private:
  void start(const std::string& address) {
    ServerOptions options{{address}, Poll::adaptive, 0};
    options.state_folder = folder_.path.string();
    options.durability_ns = uint64_t{3600} * 1'000'000'000;
    server_ = std::move(make_shards(options, 1)[0]);
  }
  bool is_silent() const {
    return most_rows < std::numeric_limits<uint64_t>::max() &&
           server_->table("replay").rows() >= most_rows;
  }

  Folder folder_;
  std::unique_ptr<Server> server_;
};

std::vector<std::byte> some_params(uint8_t what) {
  return std::vector<std::byte>(100, std::byte{what});
}

}  // namespace

TEST_CASE("no version of params is given twice, whatever a killed server had on disk") {
  Folder first, second, third;
  std::vector<std::byte> found;
  KeepingServer server(first.path);
  for (uint64_t version = 1; version <= 5; ++version) {
    CHECK(server.client->first().publish(some_params(1)) == version);
  }
  copy_all(first.path, second.path);  // as after a SIGKILL: none of the five is in it
  {
    KeepingServer next(second.path);
    CHECK(next.client->first().fetch(0, found) == 0);
    const uint64_t version = next.client->first().publish(some_params(2));
    CHECK(version > 5);
    copy_all(second.path, third.path);  // once more: this start has told what it may give
    KeepingServer last(third.path);
    CHECK(last.client->first().publish(some_params(3)) > version);
  }
  // Ended in order, it goes on where it was.
  const KeepingServer again(second.path);
  const uint64_t version = again.client->first().fetch(0, found);
  CHECK(version > 5);
  CHECK(found == some_params(2));
  CHECK(again.client->first().publish(some_params(4)) == version + 1);
}

TEST_CASE("the sampler that a server is started with draws in the tables of its state, too") {
  const Folder folder;
  const TableSpec spec = spec_of(200);
  {
    const KeepingServer server(folder.path);
    const uint32_t table = server.client->open_table(spec);
    const auto writer = server.client->writer(table, spec, 1, {}, {});
    write(*writer, 1, 0, 2 * kSteps);
    writer->flush();
  }
  const KeepingServer server(folder.path, 1, {.name = "curriculum", .options = {{"fresh", 0.5}}});
  Client& client = server.client->first();
  const uint32_t table = server.client->open_table(spec);  // as before
  CHECK(client.list_tables()[0].sampler.name == "curriculum");
  CHECK(metric(client, "table.replay.live_items") == 2 * (kSteps - 1));
  std::vector<std::byte> reply(SampleLayout(spec).total_bytes(8));
  client.sample(table, 8, reply, deadline_in(kPatienceNs));
  check_sample(spec, reply, 8);
}

TEST_CASE("a shard that had not heard of a drop goes on without the table") {
  const Folder folder, before;
  KeepingServer(folder.path, 2).client->open_table(spec_of(200));
  copy_all(folder.path / "shard-1", before.path);
  {
    const KeepingServer server(folder.path, 2);
    server.client->drop_table(server.client->open_table(spec_of(200)));
    server.client->open_table(spec_of(300));
  }
  copy_all(before.path, folder.path / "shard-1");  // as a power cut between the two may leave it
  {
    const KeepingServer server(folder.path, 2);
    CHECK(server.notes(0).empty());
    CHECK(server.notes(1) == kGivenUp);
    server.client->open_table(spec_of(300));
  }
  CHECK(KeepingServer(folder.path, 2).notes(1).empty());
}

TEST_CASE("what is given up for a first shard that is not whole is told") {
  const Folder folder;
  KeepingServer(folder.path, 2).client->open_table(spec_of(200));
  copy_all(Folder().path, folder.path / "shard-0");
  CHECK(KeepingServer(folder.path, 2).notes(1) == kGivenUp);
}

TEST_CASE("a publisher that is ahead of the disk waits for it") {
  const Folder folder;
  const KeepingServer server(folder.path);
  for (uint64_t version = 1; version <= 300; ++version) {
    CHECK(server.client->first().publish(some_params(1)) == version);
  }
  CHECK(!params_files(folder.path / "shard-0").empty());
}

TEST_CASE("a flush that is interrupted while it sends again goes on with the next one") {
  for (const uint64_t rows : {1, 25}) {
    CAPTURE(rows);
    KilledServer server;
    const TableSpec spec = spec_of();
    const uint32_t table = server.client->open_table(spec);
    StreamWriter writer(*server.client, table, spec, server.client->lease(table, 1),
                        {.flush_rows = 1});
    write(writer, 1, 0, 40);
    writer.flush();
    server.start_again();
    CHECK(metric(*server.client, "table.replay.rows") == 0);
    server.most_rows = rows;
    CHECK_THROWS_AS(writer.flush(), KilledServer::Interrupt);
    CHECK_THROWS_AS(writer.flush(), KilledServer::Interrupt);
    server.most_rows = std::numeric_limits<uint64_t>::max();
    writer.flush();
    CHECK(metric(*server.client, "table.replay.rows") == 40);
    CHECK(writer.rows_stored() == 40);
  }
}

TEST_CASE("a writer that has nothing new sends again what a killed server had not on disk") {
  KilledServer server;
  const TableSpec spec = spec_of();
  const uint32_t table = server.client->open_table(spec);
  StreamWriter writer(*server.client, table, spec, server.client->lease(table, 1), {});
  write(writer, 1, 0, 40);
  writer.flush();
  server.start_again();
  writer.flush();
  CHECK(metric(*server.client, "table.replay.rows") == 40);
  CHECK(writer.rows_stored() == 40);
}

}  // namespace drlnet::test
