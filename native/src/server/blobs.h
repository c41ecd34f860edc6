// Named blobs that clients keep at the server beside the params: what their run is, for those that
// join it. The server reads none of them. Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace drlnet {

class Blobs {
 public:
  static constexpr size_t kMaxNameBytes = 64;
  static constexpr size_t kMaxBytes = 128 * 1024;  // of each
  struct Blob {
    uint64_t version = 0;  // of all blobs together: a later put has a greater one
    std::vector<std::byte> bytes;
  };

  // Whether there is one of that name, or there are fewer than `most`.
  bool takes(std::string_view name, size_t most) const;
  // Replaces the blob of that name, and returns its version.
  uint64_t put(std::string_view name, std::span<const std::byte> bytes);
  // nullptr without one.
  const Blob* find(std::string_view name) const;

  // One of an earlier life of the server.
  void restore(std::string name, Blob blob);
  // Later puts have versions that no client of an earlier life has seen, whatever of it was lost.
  // version: of the last put that is known; incarnation: the life's number, from 1 on.
  void go_on_from(uint64_t version, uint64_t incarnation);
  uint64_t version() const { return version_; }  // of the last put

  size_t count() const { return blobs_.size(); }
  uint64_t bytes() const { return bytes_; }
  // By name, for what writes them down.
  auto begin() const { return blobs_.begin(); }
  auto end() const { return blobs_.end(); }

 private:
  std::map<std::string, Blob, std::less<>> blobs_;
  uint64_t version_ = 0, bytes_ = 0;
};

}  // namespace drlnet
