#include "base/crc32c.h"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "base/random.h"

namespace drlnet::test {

TEST_CASE("CRC-32C has the values that others compute") {
  const auto crc = [](std::string_view text) { return crc32c(std::as_bytes(std::span(text))); };
  CHECK(crc("") == 0);
  CHECK(crc("123456789") == 0xE3069283);
  // RFC 3720, B.4.
  CHECK(crc32c(std::vector<std::byte>(32)) == 0x8A9136AA);
  CHECK(crc32c(std::vector<std::byte>(32, std::byte{0xFF})) == 0x62A8AB43);
}

TEST_CASE("CRC-32C is the same by any way, and in parts") {
  Random random(3);
  std::vector<std::byte> bytes(100'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  for (int i = 0; i < 300; ++i) {
    const size_t from = random.below(100), length = random.below(i < 100 ? 300 : 90'000);
    const auto part = std::span(bytes).subspan(from, length);
    const uint32_t whole = crc32c(part);
    CHECK(whole == crc32c_portable(part));
    const size_t cut = random.below(length + 1);
    CHECK(whole == crc32c(part.subspan(cut), crc32c(part.first(cut))));
  }
}

TEST_CASE("CRC-32C finds every flipped bit") {
  std::vector<std::byte> bytes(13'000, std::byte{7});
  const uint32_t right = crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 97) {
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    CHECK(crc32c(bytes) != right);
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

}  // namespace drlnet::test
