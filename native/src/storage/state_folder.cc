#include "storage/state_folder.h"

#include <cstring>

#include "base/crc32c.h"
#include "base/world.h"
#include "storage/format.h"

namespace drlnet {
namespace {

constexpr const char* kIdentityFile = "identity";
constexpr const char* kIdentityCopy = "identity-copy";  // written behind it
constexpr const char* kLockFile = "lock";

bool has_identity(const Path& path) {
  return file_exists(path / kIdentityFile) || file_exists(path / kIdentityCopy);
}

// But for what a server leaves that ended while it made a state.
void require_empty(const Path& path) {
  for (const Path& file : list_folder(path)) {
    const std::string name = file.filename().string();
    if (name == kLockFile || name == std::string(kIdentityFile) + ".new") continue;
    throw Error(Status::config, path.string() + " holds other files, and no state of a server",
                "name a folder that is empty, or a new one");
  }
}

struct Read {
  FileHeader header;
  Identity identity;
  bool of_copy = false;
};

Read read_identity_file(const Path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  PartReader parts(bytes, FileKind::identity, 0);
  const auto part = parts.next();
  Read read{parts.header(), {}};
  if (!part || part->header.kind != kIdentity || part->body.size() != sizeof read.identity) {
    const FileHeader& header = read.header;
    if (intact(header) && header.kind == FileKind::identity && header.version != kStateVersion) {
      throw Error(
          Status::config,
          path.string() + " is of version " + std::to_string(header.version) + " of the state",
          "serve it with the drlnet that wrote it, or name another folder");
    }
    throw Error(Status::state_damaged, path.string() + " is damaged",
                "restore the folder from a copy, or name another one");
  }
  std::memcpy(&read.identity, part->body.data(), sizeof read.identity);
  return read;
}

// That of the copy where the other is damaged, or gone.
Read read_identity(const Path& path) {
  const Path file = path / kIdentityFile, copy = path / kIdentityCopy;
  try {
    return read_identity_file(file);
  } catch (const Error& error) {
    const bool lost = error.status() == Status::state_damaged || !file_exists(file);
    if (!lost || !file_exists(copy)) throw;
  }
  Read read = read_identity_file(copy);
  read.of_copy = true;
  return read;
}

// Whether keys of this epoch come after those of the other, which counts round.
bool after(uint16_t epoch, uint16_t last) { return static_cast<int16_t>(epoch - last) > 0; }

}  // namespace

StateFolder::StateFolder(const Path& path, uint32_t shards, uint16_t epoch, bool to_read)
    : path_(path), shards_(shards), epoch_(epoch), to_read_(to_read) {
  if (to_read) {
    shards_of_state(path_);
  } else {
    make_folders(path_);
  }
  const bool there = has_identity(path_);
  if (!there) require_empty(path_);
  if (!there && !to_read) sync_folder(std::filesystem::absolute(path_).parent_path());
  lock();
  if (there) read();
  if (to_read) return;
  if (!there) lineage_ = random_secret() | 1;
  ++incarnation_;
  write();
  for (uint32_t i = 0; i < shards_; ++i) make_folders(shard(i));
  sync_folder(path_);
}

// The system lets go of it when the process ends, however it does.
void StateFolder::lock() {
  // A disk that is only read may take no file; where there is none, no server has ever had it.
  if (to_read_ && !file_exists(path_ / kLockFile)) return;
  lock_ = to_read_ ? File::open(path_ / kLockFile) : File::open_lock(path_ / kLockFile);
  if (lock_.try_lock()) return;
  throw Error(Status::config, "another process uses the state in " + path_.string(),
              "end that server first, or name another folder");
}

void StateFolder::read() {
  auto [header, identity, of_copy] = read_identity(path_);
  if (of_copy) {
    note_.assign("../").append(kIdentityFile);
    note_.append(" is damaged; goes on from ../").append(kIdentityCopy);
    // The last start may have ended before it wrote the copy.
    ++identity.incarnation;
    ++identity.epoch;
  }
  if (identity.shards != shards_) {
    throw Error(Status::config,
                "the state in " + path_.string() + " is that of a server of " +
                    std::to_string(identity.shards) +
                    (identity.shards == 1 ? " shard" : " shards") + ", not of " +
                    std::to_string(shards_),
                "serve it with --shards " + std::to_string(identity.shards));
  }
  lineage_ = header.lineage;
  incarnation_ = identity.incarnation;
  const auto last = static_cast<uint16_t>(identity.epoch);
  if (to_read_ || !after(epoch_, last)) epoch_ = static_cast<uint16_t>(last + (to_read_ ? 0 : 1));
}

void StateFolder::write() const {
  FileHeader header{.kind = FileKind::identity, .lineage = lineage_};
  set_crc(header);
  Bytes bytes;
  const auto head = std::as_bytes(std::span(&header, 1));
  bytes.assign(head.begin(), head.end());
  const Identity identity{incarnation_, shards_, epoch_};
  append_part({.kind = kIdentity}, std::as_bytes(std::span(&identity, 1)), bytes);
  for (const char* name : {kIdentityFile, kIdentityCopy}) replace_file(path_ / name, bytes);
}

uint32_t shards_of_state(const Path& path) {
  if (!has_identity(path)) {
    throw Error(Status::config, path.string() + " holds no state of a server",
                "name the folder that `drlnet serve --state` was given");
  }
  return read_identity(path).identity.shards;
}

}  // namespace drlnet
