#include "base/memory_left.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace drlnet {
namespace {

std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // no such file, or "max"
}

}  // namespace

uint64_t memory_left_bytes() {
  uint64_t left = std::numeric_limits<uint64_t>::max();
  std::ifstream file("/proc/meminfo");
  std::string field;
  for (uint64_t kib = 0; file >> field; file.ignore(64, '\n')) {
    if (field == "MemAvailable:" && file >> kib) left = kib * 1024;
  }
  // Both versions of control groups, as a container sees its own.
  for (const auto& [limit_at, used_at] :
       {std::pair<std::string, std::string>{"memory.max", "memory.current"},
        {"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"}}) {
    const auto limit = number_in("/sys/fs/cgroup/" + limit_at);
    const auto used = number_in("/sys/fs/cgroup/" + used_at);
    if (limit && used) left = std::min(left, *limit - std::min(*limit, *used));
  }
  return left;
}

}  // namespace drlnet
