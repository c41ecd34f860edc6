// Sealed frames: nothing of them is believed that was altered, or has come before.
#include "session/keys/sealing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "base/random.h"
#include "session/keys/pairs.h"
#include "wire/frame.h"

namespace drlnet::test {
namespace {

using Opened = Sealing::Opened;

struct Ends {
  Sealing client, server;
  explicit Ends(Suite suite = Suite::aes_256_gcm, uint32_t packet_bits = Sealing::kPacketBits)
      : client(suite, {secret_of(1), secret_of(2)}, Sealing::Side::client, packet_bits),
        server(suite, {secret_of(1), secret_of(2)}, Sealing::Side::server, packet_bits) {}
};

std::vector<std::byte> plain_frame(uint64_t packet, size_t payload = 100) {
  std::vector<std::byte> frame(kHeaderBytes + payload);
  FrameHeader header;
  header.kind = FrameKind::request;
  header.connection = 77;
  header.packet_number = packet;
  header.length = static_cast<uint32_t>(payload);
  write_header(frame.data(), header);
  for (size_t i = 0; i < payload; ++i) {
    frame[kHeaderBytes + i] = static_cast<std::byte>(i * 31 + packet);
  }
  return frame;
}

std::vector<std::byte> sealed_by(Sealing& sealing, std::vector<std::byte> frame) {
  TxFrame sent;
  sent.data = frame.data();
  sent.length = static_cast<uint32_t>(frame.size());
  sealing.seal(sent);
  return frame;
}

Opened opened_by(Sealing& sealing, const std::vector<std::byte>& frame) {
  std::vector<std::byte> out(frame.size());
  return sealing.open(frame, out.data());
}

}  // namespace

TEST_CASE("a message has the same bytes, whichever library seals it") {
  Random random(3);
  const Key key = secret_of(4);
  Aead fastest(Suite::aes_256_gcm, key, Aead::Side::seals);
  Aead openssl(Suite::aes_256_gcm, key, Aead::Side::seals, Aead::By::openssl);
  Aead opens(Suite::aes_256_gcm, key, Aead::Side::opens);
  for (uint64_t nonce = 1; nonce < 400; ++nonce) {
    std::vector<std::byte> plain(random.below(nonce % 8 == 0 ? 70'000 : 200)),
        head(random.below(20));
    for (auto& byte : plain) byte = static_cast<std::byte>(random.below(256));
    for (auto& byte : head) byte = static_cast<std::byte>(random.below(256));
    std::vector<std::byte> sealed = plain, expected(plain.size()), opened(plain.size());
    std::array<std::byte, kTagBytes> tag, expected_tag;
    fastest.begin(nonce, head);
    for (size_t at = 0, bytes; at < plain.size(); at += bytes) {  // in place, in pieces
      bytes = std::min<size_t>(plain.size() - at, random.below(900));
      fastest.piece(sealed.data() + at, sealed.data() + at, bytes);
    }
    fastest.end(tag.data());
    openssl.begin(nonce, head);
    openssl.piece(expected.data(), plain.data(), plain.size());
    openssl.end(expected_tag.data());
    CHECK(sealed == expected);
    CHECK(tag == expected_tag);
    opens.begin(nonce, head);
    opens.piece(opened.data(), sealed.data(), sealed.size());
    CHECK(opens.end_with(tag.data()));
    CHECK(opened == plain);
    tag[random.below(tag.size())] ^= std::byte{1} << random.below(8);
    opens.begin(nonce, head);
    opens.piece(opened.data(), sealed.data(), sealed.size());
    CHECK_FALSE(opens.end_with(tag.data()));
  }
}

TEST_CASE("what is opened is what was sealed, in both directions and by both ciphers") {
  for (const Suite suite : {Suite::aes_256_gcm, Suite::chacha20_poly1305}) {
    Ends ends(suite);
    for (const size_t payload : {size_t{0}, size_t{1}, size_t{1400}, size_t{65'408}}) {
      const uint64_t packet = payload + 1;
      const auto frame = plain_frame(packet, payload);
      const auto sealed = sealed_by(ends.client, frame);
      CHECK(Sealing::is_sealed(sealed));
      CHECK(!std::equal(frame.begin() + 32, frame.end(), sealed.begin() + 32));
      std::vector<std::byte> out(frame.size());
      CHECK(ends.server.open(sealed, out.data()) == Opened::whole);
      CHECK(out == frame);
      CHECK(opened_by(ends.client, sealed) == Opened::forged);  // sent back to its sender
      const auto back = sealed_by(ends.server, frame);
      CHECK(back != sealed);
      CHECK(ends.client.open(back, out.data()) == Opened::whole);
      CHECK(out == frame);
    }
  }
}

TEST_CASE("lent bytes are sealed from where they lie") {
  Ends ends;
  const auto whole = plain_frame(1, 3000);
  auto memory = whole;
  TxFrame frame;
  frame.data = memory.data();
  frame.length = static_cast<uint32_t>(memory.size());
  for (const auto& [from, end] : {std::pair{64, 700}, {700, 1300}, {1400, 2000}}) {
    std::memset(&memory[from], 0, end - from);
    frame.loans.put(&memory[from], &whole[from], end - from);
  }
  ends.client.seal(frame);
  CHECK(frame.loans.empty());
  Ends fresh;
  CHECK(memory == sealed_by(fresh.client, whole));
}

TEST_CASE("any bit that changes, and any byte that is missing, is found") {
  Ends ends;
  auto frame = sealed_by(ends.client, plain_frame(9));
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= std::byte{1} << bit % 8;
    CHECK(opened_by(ends.server, frame) != Opened::whole);
    frame[bit / 8] ^= std::byte{1} << bit % 8;
  }
  for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
    const std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<long>(bytes));
    CHECK(opened_by(ends.server, cut) != Opened::whole);
  }
  CHECK(opened_by(ends.server, frame) == Opened::whole);
}

TEST_CASE("a frame of other keys, and one that is not sealed, are forged") {
  Ends ends;
  Sealing other(Suite::aes_256_gcm, {secret_of(3), secret_of(4)}, Sealing::Side::client);
  CHECK(opened_by(ends.server, sealed_by(other, plain_frame(1))) == Opened::forged);
  CHECK(opened_by(ends.server, plain_frame(1)) == Opened::forged);
}

TEST_CASE("each packet is opened once, and none that 2,048 newer ones have overtaken") {
  Random random(7);
  Ends ends;
  constexpr uint64_t kPackets = 6000;
  std::vector<std::vector<std::byte>> sealed;
  for (uint64_t packet = 1; packet <= kPackets; ++packet) {
    sealed.push_back(sealed_by(ends.client, plain_frame(packet, 8)));
  }
  std::set<uint64_t> opened;
  uint64_t newest = 0;
  for (int draw = 0; draw < 30'000; ++draw) {
    // About the newest one, seldom anywhere.
    const uint64_t far = random.bits() % kPackets;
    const uint64_t near = std::min<uint64_t>(newest + random.bits() % 40, kPackets - 1);
    const uint64_t old = near - std::min(near, random.bits() % 2300);
    const uint64_t index = draw % 997 == 0 ? far % (newest + 60 < kPackets ? newest + 60 : kPackets)
                                           : (draw % 2 ? near : old);
    const uint64_t packet = index + 1;
    const bool expected = !opened.contains(packet) && packet + ReplayWindow::kPackets > newest;
    const Opened result = opened_by(ends.server, sealed[index]);
    REQUIRE(result == (expected ? Opened::whole : Opened::replayed));
    if (expected) opened.insert(packet);
    if (expected) newest = std::max(newest, packet);
  }
  CHECK(opened.size() > 2000);
}

TEST_CASE("keys follow each other, and packets overtake each other there") {
  constexpr uint32_t kBits = 4;  // a key for 16 packets
  Ends ends(Suite::aes_256_gcm, kBits);
  std::vector<std::vector<std::byte>> sealed;
  for (uint64_t packet = 1; packet <= 200; ++packet) {
    sealed.push_back(sealed_by(ends.client, plain_frame(packet)));
  }
  // By pairs, each the other way round: some of them have a change of keys between them.
  for (size_t i = 0; i + 1 < sealed.size(); i += 2) {
    CHECK(opened_by(ends.server, sealed[i + 1]) == Opened::whole);
    CHECK(opened_by(ends.server, sealed[i]) == Opened::whole);
    CHECK(opened_by(ends.server, sealed[i]) == Opened::replayed);
  }
  // Equal packets under another key are other bytes: the key has changed.
  Ends slow(Suite::aes_256_gcm);
  CHECK(sealed_by(slow.client, plain_frame(1)) == sealed[0]);
  CHECK(sealed_by(slow.client, plain_frame(20)) != sealed[19]);
}

TEST_CASE("a packet of a key that is far off is not looked at, and changes nothing") {
  Ends ends(Suite::aes_256_gcm, 4);
  CHECK(opened_by(ends.server, plain_frame(uint64_t{1} << 40)) == Opened::forged);
  auto jumped = sealed_by(ends.client, plain_frame(1));
  jumped[8 + 2] ^= std::byte{1};  // of the packet number
  CHECK(opened_by(ends.server, jumped) == Opened::forged);
  CHECK(opened_by(ends.server, sealed_by(ends.client, plain_frame(2))) == Opened::whole);
  CHECK(opened_by(ends.server, sealed_by(ends.client, plain_frame(18))) == Opened::whole);
}

}  // namespace drlnet::test
