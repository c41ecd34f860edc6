// Zeroed memory straight from the kernel: pages that nothing has touched cost nothing, so a table
// of a given capacity takes memory as it fills. Aligned to pages; large ones ask for huge pages.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"

namespace drlnet {

class Mapping {
 public:
  Mapping() = default;
  // Throws Error(server_full) when the kernel refuses.
  explicit Mapping(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      throw Error(Status::server_full,
                  "the machine has no " + std::to_string(bytes) + " bytes of memory for a table",
                  "lower the capacity, or free memory");
    }
    data_ = static_cast<std::byte*>(address);
    madvise(address, bytes, MADV_HUGEPAGE);  // a hint: works without
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace drlnet
