// Reading and writing message bodies. A ByteReader never reads past its end: after the first field
// that does not fit every further one is zero or empty, and ok() is false. A ByteWriter grows a
// vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace drlnet {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value{};
    if (const auto source = take(sizeof(T)); source.size() == sizeof(T)) {
      std::memcpy(&value, source.data(), sizeof(T));
    }
    return value;
  }
  std::string_view text() {  // u16 length, then the characters
    const auto source = take(get<uint16_t>());
    return {reinterpret_cast<const char*>(source.data()), source.size()};
  }
  // `count` bytes, or none and failure.
  std::span<const std::byte> take(uint64_t count) {
    if (!ok_ || count > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    const auto result = bytes_.subspan(at_, count);
    at_ += count;
    return result;
  }
  // Records in place; empty and failure unless they are there and aligned.
  template <typename T>
  std::span<const T> records(uint64_t count) {
    if (count > bytes_.size() / sizeof(T)) ok_ = false;
    const auto source = take(ok_ ? count * sizeof(T) : 0);
    if (reinterpret_cast<uintptr_t>(source.data()) % alignof(T) != 0) ok_ = false;
    if (!ok_) return {};
    return {reinterpret_cast<const T*>(source.data()), static_cast<size_t>(count)};
  }
  void align8() { take((8 - at_ % 8) % 8); }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    raw(std::as_bytes(std::span(&value, 1)));
  }
  void text(std::string_view value) {  // cut where its length does not fit
    value = value.substr(0, std::numeric_limits<uint16_t>::max());
    put(static_cast<uint16_t>(value.size()));
    raw(std::as_bytes(std::span(value)));
  }
  void raw(std::span<const std::byte> source) {
    bytes_.insert(bytes_.end(), source.begin(), source.end());
  }
  void align8() { bytes_.resize((bytes_.size() + 7) & ~size_t{7}); }

 private:
  std::vector<std::byte>& bytes_;
};

}  // namespace drlnet
