// Zeroed memory straight from the kernel: pages that nothing has touched cost nothing, so a table
// of a given capacity takes memory as it fills. Aligned to pages; from 2 MiB on to huge pages,
// which it asks for: random access over megabytes otherwise waits for address translation.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace drlnet {

class Mapping {
 public:
  Mapping() = default;
  enum class Pages : bool { small, huge };
  // small: a part of it that is touched takes no more memory than that. Throws Error(server_full)
  // when the kernel refuses, which says what it was for.
  explicit Mapping(size_t bytes, Pages pages = Pages::huge, const char* purpose = "a table",
                   const char* remedy = "lower the capacity, or free memory")
      : bytes_(bytes) {
    if (bytes == 0) return;
    const bool huge = pages == Pages::huge && bytes >= kHugePage;
    const size_t whole = mapped_bytes(bytes), slack = huge ? kHugePage : 0;
    void* address = mmap(nullptr, whole + slack, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      throw Error(Status::server_full,
                  "the machine has no " + std::to_string(bytes) + " bytes of memory for " + purpose,
                  remedy);
    }
    data_ = static_cast<std::byte*>(address);
    if (pages == Pages::small) madvise(data_, whole, MADV_NOHUGEPAGE);  // both are hints
    if (slack == 0) return;
    // The kernel chose the place: give back what lies before and behind the aligned part.
    const size_t before = (0 - reinterpret_cast<uintptr_t>(address)) % kHugePage;
    if (before > 0) munmap(data_, before);
    if (before < slack) munmap(data_ + before + whole, slack - before);
    data_ += before;
    madvise(data_, whole, MADV_HUGEPAGE);
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, mapped_bytes(bytes_));
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static size_t mapped_bytes(size_t bytes) {
    return bytes < kHugePage ? bytes : (bytes + kHugePage - 1) / kHugePage * kHugePage;
  }

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace drlnet
