// A frame's checksum: over lent bytes as over others, and over each bit.
#include "session/seal.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "wire/frame.h"

namespace drlnet::test {
namespace {

struct Filled {
  std::vector<std::byte> memory, lent;
  TxFrame frame;

  Filled(size_t bytes, bool lends) : memory(bytes), lent(bytes) {
    for (size_t i = 0; i < bytes; ++i) lent[i] = static_cast<std::byte>(i * 37 + 11);
    frame.data = memory.data();
    frame.length = static_cast<uint32_t>(bytes);
    memory = lent;
    if (!lends) return;
    for (const auto& [from, end] : {std::pair{64, 700}, {700, 1300}, {1400, 2000}}) {
      std::memset(&memory[from], 0, end - from);
      frame.loans.put(&memory[from], &lent[from], end - from);
    }
  }
  // What a device would send.
  const std::vector<std::byte>& sent() {
    seal(frame);
    frame.loans.copy_out();
    return memory;
  }
};

}  // namespace

TEST_CASE("a frame of lent bytes has the checksum of one that was copied") {
  const auto whole = Filled(2200, false).sent();
  CHECK(Filled(2200, true).sent() == whole);
  CHECK(intact(whole));
  CHECK(sealed(whole));
}

TEST_CASE("any bit that changes, and any byte that is missing, is found") {
  auto frame = Filled(160, false).sent();
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= std::byte{1} << bit % 8;
    CHECK(!intact(frame));
    frame[bit / 8] ^= std::byte{1} << bit % 8;
  }
  for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
    CHECK(!intact(std::span(frame).first(bytes)));
  }
  CHECK(intact(frame));
}

TEST_CASE("a frame whose end lies elsewhere has the same checksum") {
  auto frame = Filled(2200, false).sent();
  const std::span<std::byte> all(frame);
  const std::vector parts{all.subspan(64, 1000), all.subspan(1064)};
  CHECK(intact(all.first(64), parts));
  parts[1][5] ^= std::byte{4};
  CHECK(!intact(all.first(64), parts));
}

TEST_CASE("memory alters nothing, a network may") {
  CHECK(!listen("memory:")->may_alter_bytes());
  CHECK(listen("udp://127.0.0.1:0")->may_alter_bytes());
}

}  // namespace drlnet::test
