// The handshake, against another implementation's bytes, and every bit of it altered.
#include "session/keys/noise.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "session/keys/pairs.h"

namespace drlnet::test {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<int>(byte) / 16];
    text += kDigits[std::to_integer<int>(byte) % 16];
  }
  return text;
}

struct Talk {
  std::array<std::byte, 16> prologue;
  Initiator client;
  Responder server;
  std::array<std::byte, 12> said;
  std::array<std::byte, 7> answered;

  Talk()
      : prologue(counted()),
        client(secret_of(1), public_of(secret_of(2)), prologue),
        server(secret_of(2), public_of(secret_of(2)), prologue) {}
  static std::array<std::byte, 16> counted() {
    std::array<std::byte, 16> bytes;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    return bytes;
  }
  std::vector<std::byte> first() { return client.begin(bytes_of("hello server"), secret_of(3)); }
  std::vector<std::byte> second(SessionKeys& keys) {
    std::vector<std::byte> message;
    const auto agreed = server.finish(bytes_of("welcome"), message, secret_of(4));
    REQUIRE(agreed);
    keys = *agreed;
    return message;
  }
};

}  // namespace

// Made by the Python package noiseprotocol 0.3.1: prologue 00 to 0f, secrets of 32 bytes each (the
// client's 1, the server's 2, their ephemeral ones 3 and 4).
TEST_CASE("messages and keys are those of another implementation") {
  Talk talk;
  const auto first = talk.first();
  CHECK(hex(first) ==
        "5dfedd3b6bd47f6fa28ee15d969d5bb0ea53774d488bdaf9df1c6e0124b3ef22d5ea48b87c259312e4124f5b8a"
        "b09dbabfeeac5b1a722c5a59f272aaf5046006fb374b57b249371834daba5698d3271c1b13553d30336dd0abb1"
        "a7e7f2720b4aec36026e032b360e04dc45aa");
  CHECK(talk.server.read(first, talk.said) == public_of(secret_of(1)));
  CHECK(std::memcmp(talk.said.data(), "hello server", talk.said.size()) == 0);
  SessionKeys of_server;
  const auto second = talk.second(of_server);
  CHECK(hex(second) ==
        "ac01b2209e86354fb853237b5de0f4fab13c7fcbf433a61c019369617fecf10b290a9f97bbf591fc1455da56eb"
        "52a786eb52614b4077a8");
  const auto of_client = talk.client.finish(second, talk.answered);
  REQUIRE(of_client);
  CHECK(std::memcmp(talk.answered.data(), "welcome", talk.answered.size()) == 0);
  CHECK(hex(of_client->to_server) ==
        "e411c75d3a8cc5d9f7d54bdfb3dbf282f5f115a2088c3fa57e4e56d5a0448f5d");
  CHECK(hex(of_client->to_client) ==
        "06926038b594fd280341938917a4ed44ac8048fa7b74d2d8b399403cb6b67802");
  CHECK(of_server.to_server == of_client->to_server);
  CHECK(of_server.to_client == of_client->to_client);
}

TEST_CASE("any bit of either message that changes ends the handshake") {
  const auto whole = Talk().first();
  for (size_t bit = 0; bit < 8 * whole.size(); bit += 3) {
    if (bit == 255)
      continue;  // X25519 ignores the highest bit of a key (RFC 7748, 5); the hash does not
    Talk talk;
    auto message = whole;
    message[bit / 8] ^= std::byte{1} << bit % 8;
    CHECK(!talk.server.read(message, talk.said));
  }
  Talk talk;
  REQUIRE(talk.server.read(talk.first(), talk.said));
  SessionKeys keys;
  const auto answer = talk.second(keys);
  for (size_t bit = 0; bit < 8 * answer.size(); bit += 3) {
    auto message = answer;
    message[bit / 8] ^= std::byte{1} << bit % 8;
    CHECK(!talk.client.finish(message, talk.answered));
  }
  CHECK(talk.client.finish(answer, talk.answered));  // none of them has spoilt it
}

TEST_CASE("a first message is read with the server's key and the cookie that it was made for") {
  Talk talk;
  const auto first = talk.first();
  auto other_cookie = talk.prologue;
  other_cookie[3] ^= std::byte{1};
  CHECK(!Responder(secret_of(2), public_of(secret_of(2)), other_cookie).read(first, talk.said));
  CHECK(!Responder(secret_of(5), public_of(secret_of(5)), talk.prologue).read(first, talk.said));
  CHECK(Responder(secret_of(2), public_of(secret_of(2)), talk.prologue).read(first, talk.said));
}

TEST_CASE("keys that make every agreement the same are refused") {
  Key shared;
  CHECK(!agree(secret_of(1), Key{}, shared));
  Key one{};
  one[0] = std::byte{1};
  CHECK(!agree(secret_of(1), one, shared));
  CHECK(agree(secret_of(1), public_of(secret_of(2)), shared));
}

}  // namespace drlnet::test
