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
  for (size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{1};
    File::create(folder.path / "identity").append(bytes);
    CHECK(!cause_of([&] { StateFolder(folder.path, 3, 1); }, Status::state_damaged).empty());
    bytes[at] ^= std::byte{1};
  }
  auto& header = *reinterpret_cast<FileHeader*>(bytes.data());
  ++header.version;
  set_crc(header);
  File::create(folder.path / "identity").append(bytes);
  CHECK(cause_of([&] { StateFolder(folder.path, 3, 1); }).find("version 2") != std::string::npos);
}

}  // namespace drlnet::test
