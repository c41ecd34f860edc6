// The oracle on what clients publish: params, and blobs.
#include <algorithm>

#include "oracle.h"

namespace drlnet::sim {

void Oracle::fill_published(uint64_t number, std::vector<std::byte>& bytes) {
  bytes.resize(8 + 8 * (splitmix64(number) % 6000));
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t word = at == 0 ? number : splitmix64(number + at);
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

std::string Oracle::blob_of(uint64_t number) { return number % 3 == 0 ? "recipe" : "settings"; }

// Blobs of all names share their versions.
void Oracle::is_version(uint64_t lineage, const std::string& name, uint64_t version,
                        uint64_t number) {
  auto& numbers = name == kParams ? params_ : blobs_;
  const auto known = numbers.emplace(Key{lineage, version}, number).first;
  require(known->second == number, "(6) a version of '" + name +
                                       "' is one publication: " + std::to_string(version) +
                                       " is number " + std::to_string(known->second) +
                                       " and number " + std::to_string(number));
}

void Oracle::published(uint64_t lineage, const std::string& name, uint64_t version, uint64_t number,
                       uint64_t began_ns) {
  is_version(lineage, name, version, number);
  if (counts(began_ns)) published_[name].push_back({world_.time_ns(), version});
}

uint64_t Oracle::least_version(const std::string& name) const {
  uint64_t least = 0;
  const auto published = published_.find(name);
  if (published == published_.end()) return least;
  for (const Acknowledged& one : published->second) least = std::max(least, one.value);
  return least;
}

void Oracle::fetched(uint64_t lineage, const std::string& name, uint64_t before, uint64_t version,
                     std::span<const std::byte> bytes, uint64_t least_version, uint64_t began_ns) {
  if (counts(began_ns)) {
    require(std::max(before, version) >= least_version,
            "(4) what is published, and durable, is there: '" + name + "' of version " +
                std::to_string(version) + " where there was " + std::to_string(least_version));
  }
  if (version == 0) return;
  require(version > before, "(6) what is published comes in order: '" + name + "'");
  require(bytes.size() >= 8, "(6) what is published is whole: '" + name + "'");
  const auto number = read<uint64_t>(bytes, 0);
  std::vector<std::byte> expected;
  fill_published(number, expected);
  require(std::ranges::equal(expected, bytes), "(6) what is published is whole: '" + name + "'");
  require(name == kParams || name == blob_of(number),
          "(6) a blob is that of its name: '" + name + "' is that of '" + blob_of(number) + "'");
  is_version(lineage, name, version, number);
}

}  // namespace drlnet::sim
