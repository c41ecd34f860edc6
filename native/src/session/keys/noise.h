// The handshake of a sealed session: Noise_IK_25519_ChaChaPoly_SHA256 (noiseprotocol.org, revision
// 34). The client knows the server's public key beforehand and sends its own encrypted; either side
// proves itself to the other, and what is agreed on cannot be found later from the keys of both.
// Threading: one thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "session/keys/crypto.h"

namespace drlnet {

// The keys that frames are sealed with, of one session.
struct SessionKeys {
  Key to_server, to_client;
};

namespace noise {

// Both sides' view of what has been said (Noise, 5.2): the chaining key, the hash of all, and the
// key that comes of the agreements so far.
class Transcript {
 public:
  Transcript(std::span<const std::byte> prologue, const Key& server);
  void mix_hash(std::span<const std::byte> bytes);
  // False where the key agreed on is worth nothing.
  bool mix_agreement(const Key& secret, const Key& other);
  // Appends to `out` what is encrypted, and its tag.
  void encrypt(std::span<const std::byte> plain, std::vector<std::byte>& out);
  // Into `plain`, kTagBytes shorter. False: forged.
  bool decrypt(std::span<const std::byte> sealed, std::span<std::byte> plain);
  SessionKeys split() const;

 private:
  Key chaining_, hash_, key_{};
  uint64_t nonce_ = 0;
};

}  // namespace noise

constexpr size_t kFirstMessageBytes = kKeyBytes + kKeyBytes + 2 * kTagBytes;  // and the payload
constexpr size_t kSecondMessageBytes = kKeyBytes + kTagBytes;                 // and the payload

// The client's side: one attempt.
class Initiator {
 public:
  Initiator(const Key& secret, const Key& server, std::span<const std::byte> prologue);
  // The first message; once. ephemeral: chosen by a test.
  std::vector<std::byte> begin(std::span<const std::byte> payload,
                               const Key& ephemeral = random_key());
  // Reads the second message, its payload into `payload`. None: it is not the answer of the server
  // with that key.
  std::optional<SessionKeys> finish(std::span<const std::byte> message,
                                    std::span<std::byte> payload) const;

 private:
  Key secret_, server_, ephemeral_{};
  noise::Transcript transcript_;
};

// The server's side: one first message.
class Responder {
 public:
  Responder(const Key& secret, const Key& own_public, std::span<const std::byte> prologue);
  // Reads the first message, its payload into `payload`. The client's public key; none: forged, or
  // for another server.
  std::optional<Key> read(std::span<const std::byte> message, std::span<std::byte> payload);
  // The second message, appended to `message`; behind read(). None where the client's keys are
  // worth nothing.
  std::optional<SessionKeys> finish(std::span<const std::byte> payload,
                                    std::vector<std::byte>& message,
                                    const Key& ephemeral = random_key());

 private:
  Key secret_, client_{}, client_ephemeral_{};
  noise::Transcript transcript_;
};

}  // namespace drlnet
