// What is written comes back; what is damaged is found, named, and not believed.
#include "storage/storage.h"

#include <sys/resource.h>

#include <csignal>
#include <set>

#include "base/world.h"
#include "storage/item_shadow.h"
#include "storage/row_files.h"
#include "storage/saved_table.h"

namespace drlnet::test {
namespace {

std::vector<Path> files_of(const Path& folder) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void copy_to(const Path& from, const Path& to) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(from, to);
}

void write_bytes(const Path& path, std::span<const std::byte> bytes) {
  File file = File::create(path);
  file.append(bytes);
}

// What the system gives this process, while it lives.
class Limited {
 public:
  Limited(__rlimit_resource resource, rlim_t most) : resource_(resource) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(resource, &before_);
    const rlimit now{most, before_.rlim_max};
    setrlimit(resource, &now);
  }
  ~Limited() { setrlimit(resource_, &before_); }

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

}  // namespace

TEST_CASE("a table comes back as of its last record, over many lives") {
  for (const uint64_t capacity : {40, 300, 3000}) {
    for (const uint32_t most_draws : {0, 2}) {
      Folder folder;
      std::optional<Picture> last;
      for (uint64_t life = 0; life < 6; ++life) {
        Life now(folder.path, saved_spec(capacity, most_draws), life + 1);
        CHECK(now.notes.empty());
        CHECK(now.table->consistent());
        if (last) CHECK(now.picture() == *last);
        for (int record = 0; record < 4; ++record) {
          now.live_on(30);
          now.save();
        }
        last = now.picture();
        now.live_on(5);  // in no record
      }
    }
  }
}

TEST_CASE("rows go to disk once, and old ones leave it, of one shard of several as well") {
  for (const uint64_t shards : {1, 8}) {
    CAPTURE(shards);
    Folder folder;
    Life life(folder.path, saved_spec(2000));
    life.shards = shards;
    for (int i = 0; i < 400; ++i) {
      life.live_on(30);
      life.save();
    }
    Metrics metrics;
    life.storage->read_metrics(metrics);
    uint64_t bytes = 0, rows = 0, snapshots = 0;
    for (const auto& [name, value] : metrics.list()) {
      if (name == "state.rows_written") rows = std::get<uint64_t>(value);
      if (name == "state.snapshots") snapshots = std::get<uint64_t>(value);
    }
    CHECK(rows == life.counters.head);
    CHECK(snapshots > 20);
    for (const Path& path : files_of(folder.path)) bytes += std::filesystem::file_size(path);
    CHECK(rows > 40'000);
    CHECK(bytes < 3'000'000);  // 2,000 rows of 128 bytes are held, and files have a megabyte
    CHECK(snapshot_files(folder.path).size() == 2);
  }
}

TEST_CASE("any flipped bit, and any cut, is found and not believed") {
  Folder folder, damaged;
  std::map<uint64_t, Picture> records;
  {
    Life life(folder.path, saved_spec(2000));
    life.params = std::make_shared<Params>(3, std::vector<std::byte>(500, std::byte{5}));
    for (int i = 0; i < 8; ++i) {
      life.live_on(12);
      life.save();
      records.emplace(life.sequence, life.picture());
    }
  }
  const uint64_t newest = records.rbegin()->first;
  Random random(9);
  std::set<uint64_t> reached;
  int told = 0, refused = 0;
  for (int n = 0; n < 400; ++n) {
    copy_to(folder.path, damaged.path);
    const auto files = files_of(damaged.path);
    // The first: a snapshot of which only the header is left.
    const Path& file = n == 0 ? files.back() : files[random.below(files.size())];
    std::vector<std::byte> bytes = read_file(file);
    if (n % 4 == 0) {
      bytes.resize(n == 0 ? sizeof(FileHeader) : random.below(bytes.size()));
    } else {
      bytes[random.below(bytes.size())] ^= std::byte{1} << random.below(8);
    }
    write_bytes(file, bytes);
    try {
      Life life(damaged.path, saved_spec(2000));
      CHECK(life.table->consistent());
      reached.insert(life.sequence);
      const Picture found = life.picture();
      const Picture& right = records.at(life.sequence);
      // Given up or not: what is there is what was written.
      for (const auto& [number, item] : found.items) CHECK(right.items.at(number) == item);
      if (!life.lost) CHECK(found.items.size() == right.items.size());
      told += !life.notes.empty();
      const bool whole = life.sequence == newest && !life.lost && life.params;
      if (!whole) CHECK(!life.notes.empty());
      if (life.params) CHECK(life.params->bytes == std::vector<std::byte>(500, std::byte{5}));
    } catch (const Error& error) {
      ++refused;  // the only snapshot
      CHECK(error.cause().find("snapshot-") != std::string::npos);
    }
  }
  CHECK(told > 200);
  CHECK(reached.size() > 4);  // it goes back only as far as it has to
  CHECK(refused > 0);
}

TEST_CASE("the previous snapshot is used where the newest is damaged") {
  Folder folder;
  std::optional<Picture> before;
  uint64_t record = 0;
  {
    Life life(folder.path, saved_spec(200));
    while (snapshot_files(folder.path).size() < 2) {
      before = life.picture();
      record = life.sequence;
      life.live_on(10);
      life.save();
    }
  }
  const Path newest = snapshot_files(folder.path).back();
  std::vector<std::byte> bytes = read_file(newest);
  bytes[bytes.size() / 2] ^= std::byte{16};
  write_bytes(newest, bytes);
  Life life(folder.path, saved_spec(200));
  CHECK(life.sequence == record);
  CHECK(life.picture() == *before);
  REQUIRE(life.notes.size() == 1);
  CHECK(life.notes[0].starts_with(newest.filename().string()));
}

TEST_CASE("rows behind the last record do not count in the next life") {
  Folder folder;
  {
    Life life(folder.path);
    life.live_on(20);
    life.save();
    life.live_on(20);
    // Killed between the rows and the record.
    RowWriter writer(folder.path, kLineage, 0);
    TableState state;
    life.table->save(state);
    writer.write(life.table->ring(), life.counters.head, state.counters.head);
  }
  std::optional<Picture> last;
  {
    Life life(folder.path, saved_spec(), 5);  // other rows of the same numbers
    life.live_on(30);
    life.save();
    last = life.picture();
  }
  Life life(folder.path);
  CHECK(life.notes.empty());
  CHECK(life.picture() == *last);
}

TEST_CASE("a file of rows that was not begun costs no rows of others") {
  Folder folder;
  std::optional<Picture> last;
  {
    Life life(folder.path, saved_spec(2000));
    life.live_on(20);
    life.save();
    last = life.picture();
  }
  // The disk took six bytes of its header, and nothing more.
  write_bytes(folder.path / "rows-00000-000000000001", std::vector<std::byte>(6));
  for (int i = 0; i < 3; ++i) {
    Life life(folder.path, saved_spec(2000));
    CHECK(!life.lost);
    CHECK(life.picture() == *last);
    life.live_on(20);
    life.save();
    last = life.picture();
  }
}

TEST_CASE("files that a state's folder has beside are left alone") {
  Folder folder;
  Life(folder.path).save();
  const std::array names = {"rows-00000-123456789012345678901234",
                            "rows-00000-copy",
                            "rows-00000-",
                            "params-123456789012345678901234",
                            "params-copy.new",
                            "snapshot-0000000000000000001.bak",
                            "snapshot-copy"};
  for (const char* name : names) replace_file(folder.path / name, {});
  for (int lives = 0; lives < 2; ++lives) {
    Life life(folder.path);
    CHECK(life.notes.empty());
    life.live_on(40);
    life.save();
  }
  for (const char* name : names) CHECK(std::filesystem::exists(folder.path / name));
}

TEST_CASE("params behind the last record do not count in the next life") {
  const auto published = [](uint64_t version, int filled) {
    return std::make_shared<Params>(version, std::vector<std::byte>(50, std::byte(filled)));
  };
  Folder folder, killed;
  {
    Life life(folder.path);
    life.params = published(1, 1);
    life.live_on(20);
    life.save();
    copy_to(folder.path, killed.path);
    for (uint64_t version = 2; version < 4; ++version) {
      life.params = published(version, 2);
      life.save();
    }
  }
  for (const auto& [version, path] : params_files(folder.path)) {  // killed before their record
    std::filesystem::copy(path, killed.path, std::filesystem::copy_options::skip_existing);
  }
  {
    Life life(killed.path);
    CHECK(life.notes.empty());
    REQUIRE(life.params);
    CHECK(life.params->version == 1);
    life.save();
    life.params = published(2, 3);  // other bytes of the same version
    life.save();
  }
  Life life(killed.path);
  CHECK(life.notes.empty());
  REQUIRE(life.params);
  CHECK(life.params->version == 2);
  CHECK(life.params->bytes == std::vector<std::byte>(50, std::byte{3}));
  CHECK(params_files(killed.path).size() == 2);
}

TEST_CASE("a full disk is told, and tried again") {
  Folder folder;
  Life life(folder.path, saved_spec(3000));
  life.live_on(200);
  life.save();
  life.live_on(200);
  {
    const Limited full(RLIMIT_FSIZE, 4096);
    life.storage->write(life.make_cut());
    for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(life.storage->finish(), Error);
    CHECK(life.storage->in_trouble());
    const std::string trouble = life.storage->trouble();
    CHECK(trouble.find("File too large") != std::string::npos);
    for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(life.storage->finish(), Error);
    CHECK(life.storage->trouble() == trouble);
    CHECK(row_files(folder.path, 0).size() == 1);  // no try leaves another one
  }
  const uint64_t deadline = now_ns() + 60'000'000'000;
  while (!life.storage->has_written() && now_ns() < deadline) spin_pause();
  REQUIRE(life.storage->take_written());
  CHECK(life.storage->trouble().empty());
  const Picture last = life.picture();
  life.storage.reset();
  Life next(folder.path, saved_spec(3000));
  CHECK(next.notes.empty());
  CHECK(next.picture() == last);
}

TEST_CASE("a server that ends tries a disk once more that was full") {
  const Folder folder;
  Life life(folder.path, saved_spec(3000));
  life.live_on(200);
  {
    const Limited full(RLIMIT_FSIZE, 4096);
    life.storage->write(life.make_cut());
    CHECK_THROWS_AS(life.storage->finish(), Error);
  }
  life.storage->finish();
  CHECK(life.storage->take_written());
}

TEST_CASE("files of rows that others take the place of are not held open") {
  const Folder folder;
  std::optional<Picture> last;
  {
    Life life(folder.path);
    life.live_on(30);
    life.save();
    last = life.picture();
  }
  const std::vector<std::byte> rows = read_file(row_files(folder.path, 0)[0]);
  for (int i = 100; i < 200; ++i) {
    write_bytes(folder.path / ("rows-00000-000000000" + std::to_string(i)),
                i % 2 == 0 ? rows : std::vector<std::byte>(6));
  }
  const Limited few(RLIMIT_NOFILE, 64);
  Life life(folder.path);
  CHECK(life.notes.empty());
  CHECK(life.picture() == *last);
}

TEST_CASE("rows and params whose snapshots are missing are not taken for a new state") {
  for (const char* kept : {"rows-", "params-"}) {
    const Folder folder;
    {
      Life life(folder.path);
      life.params = std::make_shared<Params>(1, std::vector<std::byte>(50));
      life.live_on(20);
      life.save();
    }
    for (const Path& path : files_of(folder.path)) {
      if (!path.filename().string().starts_with(kept)) remove_file(path);
    }
    CHECK_THROWS_AS(Life{folder.path}, Error);
  }
}

TEST_CASE("what a kill has left of dropped tables and of half a file goes") {
  const Folder folder;
  Life(folder.path).save();
  const std::array names = {"rows-00007-000000000003", "params-0000000000000000009.new",
                            "snapshot-0000000000000000009.new"};
  for (const char* name : names) write_bytes(folder.path / name, std::vector<std::byte>(6));
  Life(folder.path).save();
  for (const char* name : names) CHECK_FALSE(file_exists(folder.path / name));
}

TEST_CASE("a record of more slots than the one before it writes to none that is not there") {
  ItemShadow shadow(4);
  TableState state;
  state.counters.slots = 1 << 20;
  state.counters.head = 4;
  state.items = {{2, 1.0F, 0, ItemState::live, 0}, {1'000'000, 1.0F, 0, ItemState::live, 0}};
  shadow.apply(state);
  REQUIRE(shadow.items().size() == 1);
  CHECK(shadow.items()[0].slot == 2);
}

}  // namespace drlnet::test
