// Files of a state, which know what they are called when something goes wrong. Of storage, file.cc
// alone asks the system for them: another one can take its place when a program is linked, as with
// base/world.h. Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace drlnet {

using Path = std::filesystem::path;

// What the system refused, in one line of cause and one of remedy.
Error disk_error(const std::string& what, const Path& path, int number);

class File {
 public:
  File() = default;
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  // Each throws Error(config), as do all methods.
  static File create(const Path& path);     // empty, whatever it was
  static File open(const Path& path);       // to read
  static File open_lock(const Path& path);  // to lock

  bool is_open() const { return fd_ >= 0; }
  const Path& path() const { return path_; }
  // False when another process holds it.
  bool try_lock() const;
  // Behind what is there.
  void append(std::span<const std::byte> bytes);
  void sync() const;  // returns once all of it is on disk
  uint64_t bytes() const { return bytes_; }
  // As many of these bytes as are there.
  size_t read(uint64_t offset, std::span<std::byte> bytes) const;
  // Says that these bytes will be read soon, for the disk to begin with them. A hint.
  void expect(uint64_t offset, uint64_t bytes) const;
  void rename(const Path& path);
  void close();

 private:
  static File open(const Path& path, int flags, const char* what);

  int fd_ = -1;
  Path path_;
  uint64_t bytes_ = 0;
};

// The whole file.
std::vector<std::byte> read_file(const Path& path);
// The file has these bytes or, where the machine stops meanwhile, those that it had before.
void replace_file(const Path& path, std::span<const std::byte> bytes);
// Names that came and went are on disk.
void sync_folder(const Path& path);
void remove_file(const Path& path);  // if it is there
bool file_exists(const Path& path);
uint64_t file_bytes(const Path& path);  // 0: there is none
// Those in the folder, in order; none where there is no such folder.
std::vector<Path> list_folder(const Path& path);
// Those whose names are the prefix and a decimal number, by number. Other files are not ours.
std::map<uint64_t, Path> numbered_files(const Path& path, const std::string& prefix);
void make_folder(const Path& path);
void make_folders(const Path& path);  // and those that it lies in, where there are none: on disk

}  // namespace drlnet
