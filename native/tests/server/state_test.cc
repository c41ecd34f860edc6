// What a server that keeps its state promises of its next life.
#include <filesystem>

#include "client/bench.h"
#include "storage/saved_table.h"

namespace drlnet::test {
namespace {

class KeepingServer {
 public:
  // It writes what changes once the test is over, but for what cannot wait.
  explicit KeepingServer(const Path& folder) {
    ServerOptions options{{"udp://127.0.0.1:0"}, Poll::adaptive, 0};
    options.state_folder = folder.string();
    options.durability_ns = uint64_t{3600} * 1'000'000'000;
    server_ = std::move(make_shards(options, 1)[0]);
    thread_ = std::thread([this] { server_->run(); });
    client = std::make_unique<Client>(
        ClientOptions{server_->addresses()[0], "test", kPatienceNs, Poll::adaptive});
  }
  ~KeepingServer() {
    server_->stop();
    thread_.join();
  }

  std::unique_ptr<Client> client;

 private:
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

std::vector<std::byte> some_params(uint8_t what) {
  return std::vector<std::byte>(100, std::byte{what});
}

}  // namespace

TEST_CASE("no version of params is given twice, whatever a killed server had on disk") {
  Folder first, second, third;
  const auto copy = [](const Folder& from, const Folder& to) {
    std::filesystem::copy(from.path, to.path, std::filesystem::copy_options::recursive);
  };
  std::vector<std::byte> found;
  KeepingServer server(first.path);
  for (uint64_t version = 1; version <= 5; ++version) {
    CHECK(server.client->publish(some_params(1)) == version);
  }
  copy(first, second);  // as after a SIGKILL: none of the five is in it
  {
    KeepingServer next(second.path);
    CHECK(next.client->fetch(0, found) == 0);
    const uint64_t version = next.client->publish(some_params(2));
    CHECK(version > 5);
    copy(second, third);  // once more, and this life's own start has told what it may give
    KeepingServer last(third.path);
    CHECK(last.client->publish(some_params(3)) > version);
  }
  // Ended in order, it goes on where it was.
  const KeepingServer again(second.path);
  const uint64_t version = again.client->fetch(0, found);
  CHECK(version > 5);
  CHECK(found == some_params(2));
  CHECK(again.client->publish(some_params(4)) == version + 1);
}

TEST_CASE("a publisher that is ahead of the disk waits for it") {
  const Folder folder;
  const KeepingServer server(folder.path);
  for (uint64_t version = 1; version <= 300; ++version) {
    CHECK(server.client->publish(some_params(1)) == version);
  }
  CHECK(!params_files(folder.path / "shard-0").empty());
}

}  // namespace drlnet::test
