#include "storage/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace drlnet {

File::~File() { close(); }

File::File(File&& other) noexcept { *this = std::move(other); }

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void File::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

File File::open(const Path& path, int flags, const char* what) {
  File file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (file.fd_ < 0) throw disk_error(what, path, errno);
  struct stat status{};
  if (fstat(file.fd_, &status) == 0) file.bytes_ = static_cast<uint64_t>(status.st_size);
  return file;
}

File File::create(const Path& path) {
  return open(path, O_RDWR | O_CREAT | O_TRUNC, "cannot write");
}
File File::open(const Path& path) { return open(path, O_RDONLY, "cannot read"); }
File File::open_lock(const Path& path) { return open(path, O_RDWR | O_CREAT, "cannot write"); }

bool File::try_lock() const { return flock(fd_, LOCK_EX | LOCK_NB) == 0; }

void File::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(bytes_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw disk_error("cannot write", path_, n < 0 ? errno : EIO);
    bytes_ += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void File::sync() const {
  if (fdatasync(fd_) != 0) throw disk_error("cannot write", path_, errno);
}

size_t File::read(uint64_t offset, std::span<std::byte> bytes) const {
  bytes = bytes.first(std::min<uint64_t>(bytes.size(), bytes_ - std::min(offset, bytes_)));
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n =
        pread(fd_, bytes.data() + got, bytes.size() - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw disk_error("cannot read", path_, errno);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return got;
}

void File::expect(uint64_t offset, uint64_t bytes) const {
  posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

void File::rename(const Path& path) {
  if (std::rename(path_.c_str(), path.c_str()) != 0) throw disk_error("cannot write", path, errno);
  path_ = path;
}

void sync_folder(const Path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw disk_error("cannot read", path, errno);
  const int failed = fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  if (failed != 0) throw disk_error("cannot write", path, failed);
}

void remove_file(const Path& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw disk_error("cannot remove", path, errno);
  }
}

bool file_exists(const Path& path) {
  std::error_code failed;  // what cannot be looked at is not there
  return std::filesystem::exists(path, failed);
}

uint64_t file_bytes(const Path& path) {
  std::error_code failed;
  const uint64_t bytes = std::filesystem::file_size(path, failed);
  return failed ? 0 : bytes;
}

std::vector<Path> list_folder(const Path& path) {
  std::error_code failed;
  std::filesystem::directory_iterator entry(path, failed);
  std::vector<Path> files;
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    files.push_back(entry->path());
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    throw disk_error("cannot read", path, failed.value());
  }
  std::ranges::sort(files);
  return files;
}

void make_folder(const Path& path) {
  std::error_code failed;
  std::filesystem::create_directory(path, failed);
  if (failed) throw disk_error("cannot make", path, failed.value());
}

}  // namespace drlnet
