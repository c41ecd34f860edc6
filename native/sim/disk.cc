#include "disk.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/crc32c.h"
#include "storage/file.h"

namespace drlnet::sim {
namespace {

Disk* g_disk = nullptr;
constexpr uint64_t kSectorBytes = 512;
constexpr uint64_t kCallNs = 30'000, kSyncNs = 400'000, kSlowNs = 15'000'000;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

Disk::Disk(World& world, uint64_t seed, const std::string& folder)
    : world_(world), random_(seed), slowness_(uint64_t{1} << random_.below(7)) {
  DRLNET_ASSERT(g_disk == nullptr);
  names_[folder] = synced_[folder] = std::make_shared<Content>();
  names_[folder]->folder = true;
  g_disk = this;
}

Disk::~Disk() { g_disk = nullptr; }

Disk& Disk::current() {
  DRLNET_ASSERT(g_disk != nullptr);
  return *g_disk;
}

// Throws Killed where the process dies meanwhile.
void Disk::take_time(uint64_t most_ns) {
  Process& process = *world_.running();
  if (process.disk_calls_left != UINT64_MAX && process.disk_calls_left-- == 0) world_.kill(process);
  most_ns = random_.below(256) == 0 ? kSlowNs : most_ns * slowness_;
  world_.sleep({}, world_.read_clock() + 1 + random_.below(most_ns));
}

// For readers of a trace.
void Disk::say(const char* what, const std::string& path) const {
  if (world_.trace) std::fprintf(stderr, "                 %s %s\n", what, path.c_str());
}

void Disk::apply(const Change& change, Names& names) {
  const auto from = names.find(change.from);
  if (from != names.end() && from->second == change.content) names.erase(from);
  if (!change.to.empty()) names[change.to] = change.content;
}

void Disk::change(Change change) {
  if (!change.from.empty()) say(change.to.empty() ? "removed" : "renamed", change.from);
  if (!change.to.empty()) say("is there:", change.to);
  apply(change, names_);
  changes_.push_back(std::move(change));
}

int Disk::open(std::shared_ptr<Content> content) {
  open_.emplace(next_descriptor_, Open{std::move(content)});
  return next_descriptor_++;
}

void Disk::begin(const Fault& fault) {
  world_.note(fault_name(fault.kind));
  if (fault.kind == FaultKind::bit_rot) return rot(fault.seed);
  failing_ = fault;
  failing_.begin_ns = world_.time_ns();
}

void Disk::rot(uint64_t seed) {
  std::vector<Content*> files;
  for (const auto& [path, content] : names_) {
    const bool deep = std::ranges::count(path, '/') > 3;
    if (deep && content->synced > 0) files.push_back(content.get());
  }
  if (files.empty()) return;
  Random random(seed);
  Content& file = *files[random.below(files.size())];
  const uint64_t bit = random.below(8 * file.synced);
  file.bytes[bit / 8] ^= std::byte{1} << bit % 8;
  world_.mark("bits that rotted on disk");
}

// What the call comes to, or 0.
int Disk::error(bool takes_room) {
  if (world_.time_ns() >= failing_.begin_ns + failing_.length_ns) return 0;
  const bool full = failing_.kind == FaultKind::disk_full;
  if (full ? !takes_room : random_.uniform() >= failing_.probability) return 0;
  failed_ns_ = world_.time_ns();
  say("fails", full ? "full" : "");
  world_.mark(full ? "writes refused by a full disk" : "calls failed by a disk");
  return full ? ENOSPC : EIO;
}

int Disk::create(const std::string& path) {
  take_time(kCallNs);
  if (const int failed = error(true)) return -failed;
  change({{}, path, std::make_shared<Content>()});
  return open(names_.at(path));
}

int Disk::open(const std::string& path) {
  take_time(kCallNs);
  const auto found = names_.find(path);
  return found != names_.end() ? open(found->second) : -ENOENT;
}

void Disk::close(int descriptor) {
  const auto found = open_.find(descriptor);
  if (found->second.locks) found->second.content->locked = false;
  open_.erase(found);
}

bool Disk::try_lock(int descriptor) {
  Open& file = open_.at(descriptor);
  if (file.content->locked) return false;
  return file.locks = file.content->locked = true;
}

void Disk::write(Content& content, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  content.bytes.insert(content.bytes.end(), bytes.begin(), bytes.end());
  content.writes.push_back(content.bytes.size());
  world_.note("written", bytes.size(), crc32c(bytes));
}

int Disk::append(int descriptor, std::span<const std::byte> bytes) {
  Content& content = *open_.at(descriptor).content;
  try {
    take_time(kCallNs);
  } catch (const Killed&) {
    world_.mark("writes cut short by a kill");
    write(content, bytes.first(random_.below(bytes.size() + 1)));
    throw;
  }
  const int failed = error(true);
  write(content, failed != 0 ? bytes.first(random_.below(bytes.size() + 1)) : bytes);
  return failed;
}

int Disk::sync(int descriptor) {
  const std::shared_ptr<Content> content = open_.at(descriptor).content;
  take_time(kSyncNs);
  if (const int failed = error(false)) return failed;
  content->synced = content->bytes.size();
  content->writes.clear();
  world_.note("synced", content->synced);
  return 0;
}

void Disk::look() { take_time(kCallNs); }

int Disk::rename(const std::string& from, const std::string& to) {
  take_time(kCallNs);
  if (const int failed = error(false)) return failed;
  change({from, to, names_.at(from)});
  return 0;
}

int Disk::sync_folder(const std::string& path) {
  take_time(kSyncNs);
  if (const int failed = error(false)) return failed;
  std::erase_if(changes_, [&](const Change& one) {
    if (folder_of(one.to.empty() ? one.from : one.to) != path) return false;
    apply(one, synced_);
    return true;
  });
  world_.note("folder synced", changes_.size());
  return 0;
}

void Disk::remove(const std::string& path) {
  take_time(kCallNs);
  const auto found = names_.find(path);
  if (found != names_.end()) change({path, {}, found->second});
}

int Disk::make_folder(const std::string& path) {
  take_time(kCallNs);
  if (const int failed = error(true)) return failed;
  if (names_.contains(path)) return 0;
  auto folder = std::make_shared<Content>();
  folder->folder = true;
  change({{}, path, std::move(folder)});
  return 0;
}

const Content* Disk::find(const std::string& path) const {
  const auto found = names_.find(path);
  return found != names_.end() ? found->second.get() : nullptr;
}

std::vector<std::string> Disk::list(const std::string& folder) const {
  std::vector<std::string> paths;
  for (const auto& [path, content] : names_) {
    if (folder_of(path) == folder) paths.push_back(path);
  }
  return paths;
}

// None of what is not synced, all, or sector by sector: zeros where one was not written and a later
// one was.
void Disk::tear(Content& content) {
  if (content.synced < content.bytes.size()) {
    const uint64_t kind = random_.below(3);
    uint64_t end = kind == 1 ? content.bytes.size() : content.synced;
    for (uint64_t at = content.synced; kind == 2 && at < content.bytes.size();) {
      const uint64_t next = std::min((at / kSectorBytes + 1) * kSectorBytes, content.bytes.size());
      if (random_.below(2) == 0) {
        end = next;
      } else {
        std::fill(content.bytes.begin() + static_cast<ptrdiff_t>(at),
                  content.bytes.begin() + static_cast<ptrdiff_t>(next), std::byte{0});
      }
      at = next;
    }
    world_.mark(kind == 1 ? "writes kept over a power cut" : "writes lost to a power cut");
    if (kind == 2) world_.mark("writes torn by a power cut");
    content.bytes.resize(end);
  }
  content.synced = content.bytes.size();
  content.writes.clear();
}

void Disk::lose_power() {
  world_.note("power lost", changes_.size());
  world_.mark("power cuts");
  const bool in_order = random_.below(2) == 0;  // as a journal keeps changes of folders
  for (const Change& one : changes_) {
    if (random_.below(2) == 0) {
      apply(one, synced_);
    } else {
      world_.mark("names lost to a power cut");
      say("lost:", one.to.empty() ? one.from : one.to);
      if (in_order) break;
    }
  }
  changes_.clear();
  // Folders come before what is in them.
  std::erase_if(synced_, [&](const auto& one) {
    const std::string folder = folder_of(one.first);
    return !folder.empty() && !synced_.contains(folder);
  });
  names_ = synced_;
  for (const auto& [path, content] : names_) {
    content->locked = false;
    tear(*content);
  }
}

}  // namespace drlnet::sim

namespace drlnet {

using sim::Disk;

File::~File() { close(); }
File::File(File&& other) noexcept { *this = std::move(other); }
File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
void File::close() {
  if (fd_ >= 0) Disk::current().close(std::exchange(fd_, -1));
}

File File::create(const Path& path) {
  File file;
  file.path_ = path;
  file.fd_ = Disk::current().create(path);
  if (file.fd_ < 0) throw disk_error("cannot write", path, -file.fd_);
  return file;
}
File File::open(const Path& path) {
  File file;
  file.path_ = path;
  file.fd_ = Disk::current().open(path);
  if (file.fd_ < 0) throw disk_error("cannot read", path, -file.fd_);
  file.bytes_ = Disk::current().content(file.fd_).bytes.size();
  return file;
}
File File::open_lock(const Path& path) { return file_exists(path) ? open(path) : create(path); }
bool File::try_lock() const { return Disk::current().try_lock(fd_); }

void File::append(std::span<const std::byte> bytes) {
  const int failed = Disk::current().append(fd_, bytes);
  bytes_ = Disk::current().content(fd_).bytes.size();
  if (failed != 0) throw disk_error("cannot write", path_, failed);
}
void File::sync() const {
  const int failed = Disk::current().sync(fd_);
  if (failed != 0) throw disk_error("cannot write", path_, failed);
}
size_t File::read(uint64_t offset, std::span<std::byte> bytes) const {
  Disk::current().look();
  const std::vector<std::byte>& all = Disk::current().content(fd_).bytes;
  const auto there = std::span(all).subspan(std::min(offset, all.size()));
  const size_t count = std::min(bytes.size(), there.size());
  if (count > 0) std::memcpy(bytes.data(), there.data(), count);
  return count;
}
void File::expect(uint64_t, uint64_t) const {}
void File::rename(const Path& path) {
  const int failed = Disk::current().rename(path_, path);
  if (failed != 0) throw disk_error("cannot write", path, failed);
  path_ = path;
}

void sync_folder(const Path& path) {
  const int failed = Disk::current().sync_folder(path);
  if (failed != 0) throw disk_error("cannot write", path, failed);
}
void remove_file(const Path& path) { Disk::current().remove(path); }
bool file_exists(const Path& path) {
  Disk::current().look();
  return Disk::current().find(path) != nullptr;
}
uint64_t file_bytes(const Path& path) {
  Disk::current().look();
  const sim::Content* content = Disk::current().find(path);
  return content != nullptr ? content->bytes.size() : 0;
}
std::vector<Path> list_folder(const Path& path) {
  Disk::current().look();
  const std::vector<std::string> paths = Disk::current().list(path);
  return {paths.begin(), paths.end()};
}
void make_folder(const Path& path) {
  const int failed = Disk::current().make_folder(path);
  if (failed != 0) throw disk_error("cannot make", path, failed);
}

}  // namespace drlnet
