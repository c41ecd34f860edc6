#include "storage/state_folder.h"

#include "storage/saved_table.h"

namespace drlnet::test {
namespace {

std::string cause_of(const std::function<void()>& action, Status status = Status::config) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(!error.remedy().empty());
    CHECK(error.status() == status);
    return error.cause();
  }
  return "";
}

}  // namespace

TEST_CASE("a lineage is made once, incarnations and epochs grow") {
  Folder folder;
  const Path path = folder.path / "state";
  uint64_t lineage = 0;
  uint16_t epoch = 99;
  for (uint64_t start = 1; start <= 3; ++start) {
    const StateFolder state(path, 2, 100);  // all within a minute
    CHECK(state.incarnation() == start);
    if (start > 1) CHECK(state.lineage() == lineage);
    lineage = state.lineage();
    CHECK(state.epoch() == epoch + 1);
    epoch = state.epoch();
  }
  CHECK(StateFolder(path, 2, 30'000).epoch() == 30'000);
  CHECK(StateFolder(path, 2, 10, true).epoch() == 30'000);  // reading changes nothing
  CHECK(StateFolder(path, 2, 10, true).incarnation() == 4);
  CHECK(shards_of_state(path) == 2);
}

TEST_CASE("one server at a time has a state") {
  Folder folder;
  const StateFolder state(folder.path, 1, 1);
  CHECK(cause_of([&] { StateFolder(folder.path, 1, 1); }).find("another process") == 0);
  CHECK(cause_of([&] { StateFolder(folder.path, 1, 1, true); }).find("another process") == 0);
}

TEST_CASE("foreign folders are left alone") {
  Folder folder;
  File::create(folder.path / "thesis.tex");
  CHECK(cause_of([&] { StateFolder(folder.path, 1, 1); }).find("holds other files") !=
        std::string::npos);
  CHECK(!std::filesystem::exists(folder.path / "identity"));
  CHECK(cause_of([&] { shards_of_state(folder.path / "none"); }).find("holds no state") !=
        std::string::npos);
}

TEST_CASE("a state of another number of shards, or damaged, is named") {
  Folder folder;
  {
    const StateFolder state(folder.path, 3, 1);
  }
  CHECK(cause_of([&] { StateFolder(folder.path, 1, 1); }).find("3 shards") != std::string::npos);
  std::vector<std::byte> bytes = read_file(folder.path / "identity");
  File::create(folder.path / "identity-copy");
  for (size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{1};
    File::create(folder.path / "identity").append(bytes);
    CHECK(!cause_of([&] { StateFolder(folder.path, 3, 1); }, Status::state_damaged).empty());
    bytes[at] ^= std::byte{1};
  }
  std::filesystem::remove(folder.path / "identity-copy");
  auto& header = *reinterpret_cast<FileHeader*>(bytes.data());
  ++header.version;
  set_crc(header);
  File::create(folder.path / "identity").append(bytes);
  CHECK(cause_of([&] {
          StateFolder(folder.path, 3, 1);
        }).find("of version " + std::to_string(kStateVersion + 1)) != std::string::npos);
}

TEST_CASE("a copy stands in for a damaged identity, and is as old as the start before at most") {
  Folder folder;
  const Path identity = folder.path / "identity", copy = folder.path / "identity-copy";
  uint64_t lineage = 0;
  std::vector<std::byte> before;
  for (int start = 1; start <= 2; ++start) {
    const StateFolder state(folder.path, 1, 1);
    lineage = state.lineage();
    CHECK(state.note().empty());
    if (start == 1) before = read_file(copy);
  }
  CHECK(read_file(identity) == read_file(copy));
  File::create(copy).append(before);
  SUBCASE("damaged") { File::create(identity).append(std::span(before).first(50)); }
  SUBCASE("gone") { std::filesystem::remove(identity); }
  CHECK(shards_of_state(folder.path) == 1);
  CHECK(StateFolder(folder.path, 1, 1, true).note().find("identity is damaged") !=
        std::string::npos);
  {
    const StateFolder state(folder.path, 1, 1);
    CHECK(state.lineage() == lineage);
    CHECK(state.incarnation() == 3);
    CHECK(state.epoch() == 3);
    CHECK(!state.note().empty());
  }
  CHECK(StateFolder(folder.path, 1, 1, true).note().empty());
  CHECK(read_file(identity) == read_file(copy));
}

}  // namespace drlnet::test
