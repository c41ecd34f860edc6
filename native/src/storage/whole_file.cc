// What is the same of files in every world (file.h).
#include <cerrno>
#include <cstring>

#include "storage/file.h"

namespace drlnet {

Error disk_error(const std::string& what, const Path& path, int number) {
  std::string remedy = "see that the folder is there and that you may write to it";
  if (number == ENOSPC || number == EDQUOT) remedy = "free space there, or name another folder";
  if (number == EROFS) remedy = "name a folder on a disk that can be written to";
  if (number == EIO) remedy = "see to the disk; what is intact can be read on another one";
  return {Status::config, what + " " + path.string() + ": " + std::strerror(number), remedy};
}

std::vector<std::byte> read_file(const Path& path) {
  const File file = File::open(path);
  std::vector<std::byte> bytes(file.bytes());
  bytes.resize(file.read(0, bytes));
  return bytes;
}

void replace_file(const Path& path, std::span<const std::byte> bytes) {
  const Path beside = path.string() + ".new";
  File file = File::create(beside);
  file.append(bytes);
  file.sync();
  file.rename(path);
  sync_folder(path.parent_path());
}

void make_folders(const Path& path) {
  if (file_exists(path)) return;
  const Path parent = std::filesystem::absolute(path).parent_path();
  make_folders(parent);
  make_folder(path);
  sync_folder(parent);
}

std::map<uint64_t, Path> numbered_files(const Path& path, const std::string& prefix) {
  constexpr size_t kMostDigits = 19;
  std::map<uint64_t, Path> files;
  for (const Path& file : list_folder(path)) {
    const std::string name = file.filename().string();
    if (!name.starts_with(prefix)) continue;
    const std::string digits = name.substr(prefix.size());
    if (digits.empty() || digits.size() > kMostDigits ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    files[std::stoull(digits)] = file;
  }
  return files;
}

}  // namespace drlnet
