#include "session/keys/noise.h"

#include <cstring>
#include <string_view>

#include "base/assert.h"

namespace drlnet {
namespace noise {
namespace {

constexpr std::string_view kName = "Noise_IK_25519_ChaChaPoly_SHA256";
static_assert(kName.size() == kKeyBytes);  // then the first hash is the name itself

// HKDF of two outputs (Noise, 4.3).
struct Derived {
  Key first, second;
};
Derived derive(const Key& chaining, std::span<const std::byte> input) {
  constexpr std::byte kOne{1}, kTwo{2};
  const Key secret = hmac(chaining, {input});
  const Key first = hmac(secret, {std::span(&kOne, 1)});
  return {first, hmac(secret, {first, std::span(&kTwo, 1)})};
}

}  // namespace

Transcript::Transcript(std::span<const std::byte> prologue, const Key& server) {
  std::memcpy(hash_.data(), kName.data(), kName.size());
  chaining_ = hash_;
  mix_hash(prologue);
  mix_hash(server);
}

void Transcript::mix_hash(std::span<const std::byte> bytes) { hash_ = sha256({hash_, bytes}); }

bool Transcript::mix_agreement(const Key& secret, const Key& other) {
  Key shared;
  if (!agree(secret, other, shared)) return false;
  const Derived derived = derive(chaining_, shared);
  chaining_ = derived.first;
  key_ = derived.second;
  nonce_ = 0;
  return true;
}

void Transcript::encrypt(std::span<const std::byte> plain, std::vector<std::byte>& out) {
  const size_t at = out.size();
  out.resize(at + plain.size() + kTagBytes);
  Aead aead(Suite::chacha20_poly1305, key_, Aead::Side::seals);
  aead.begin(nonce_++, hash_);
  aead.piece(&out[at], plain.data(), plain.size());
  aead.end(&out[at + plain.size()]);
  mix_hash(std::span(out).subspan(at));
}

bool Transcript::decrypt(std::span<const std::byte> sealed, std::span<std::byte> plain) {
  if (sealed.size() != plain.size() + kTagBytes) return false;
  Aead aead(Suite::chacha20_poly1305, key_, Aead::Side::opens);
  aead.begin(nonce_++, hash_);
  aead.piece(plain.data(), sealed.data(), plain.size());
  if (!aead.end_with(sealed.data() + plain.size())) return false;
  mix_hash(sealed);
  return true;
}

SessionKeys Transcript::split() const {
  const Derived keys = derive(chaining_, {});
  return {keys.first, keys.second};
}

}  // namespace noise

namespace {

Key key_at(std::span<const std::byte> bytes, size_t at) {
  Key key;
  std::memcpy(key.data(), bytes.data() + at, key.size());
  return key;
}

}  // namespace

Initiator::Initiator(const Key& secret, const Key& server, std::span<const std::byte> prologue)
    : secret_(secret), server_(server), transcript_(prologue, server) {}

std::vector<std::byte> Initiator::begin(std::span<const std::byte> payload, const Key& ephemeral) {
  ephemeral_ = ephemeral;
  const Key e = public_of(ephemeral_);
  std::vector<std::byte> message(e.begin(), e.end());
  transcript_.mix_hash(e);
  // A server's key of a file that agrees on nothing leads to a message that no server can read.
  transcript_.mix_agreement(ephemeral_, server_);
  transcript_.encrypt(public_of(secret_), message);
  transcript_.mix_agreement(secret_, server_);
  transcript_.encrypt(payload, message);
  return message;
}

std::optional<SessionKeys> Initiator::finish(std::span<const std::byte> message,
                                             std::span<std::byte> payload) const {
  if (message.size() != kSecondMessageBytes + payload.size()) return std::nullopt;
  noise::Transcript transcript = transcript_;  // a forged answer spoils nothing
  const Key e = key_at(message, 0);
  transcript.mix_hash(e);
  if (!transcript.mix_agreement(ephemeral_, e) || !transcript.mix_agreement(secret_, e) ||
      !transcript.decrypt(message.subspan(kKeyBytes), payload)) {
    return std::nullopt;
  }
  return transcript.split();
}

Responder::Responder(const Key& secret, const Key& own_public, std::span<const std::byte> prologue)
    : secret_(secret), transcript_(prologue, own_public) {}

std::optional<Key> Responder::read(std::span<const std::byte> message,
                                   std::span<std::byte> payload) {
  if (message.size() != kFirstMessageBytes + payload.size()) return std::nullopt;
  client_ephemeral_ = key_at(message, 0);
  transcript_.mix_hash(client_ephemeral_);
  constexpr size_t kStatic = kKeyBytes + kTagBytes;
  if (!transcript_.mix_agreement(secret_, client_ephemeral_) ||
      !transcript_.decrypt(message.subspan(kKeyBytes, kStatic), client_) ||
      !transcript_.mix_agreement(secret_, client_) ||
      !transcript_.decrypt(message.subspan(kKeyBytes + kStatic), payload)) {
    return std::nullopt;
  }
  return client_;
}

std::optional<SessionKeys> Responder::finish(std::span<const std::byte> payload,
                                             std::vector<std::byte>& message,
                                             const Key& ephemeral) {
  const Key e = public_of(ephemeral);
  message.insert(message.end(), e.begin(), e.end());
  transcript_.mix_hash(e);
  if (!transcript_.mix_agreement(ephemeral, client_ephemeral_) ||
      !transcript_.mix_agreement(ephemeral, client_)) {
    return std::nullopt;
  }
  transcript_.encrypt(payload, message);
  return transcript_.split();
}

}  // namespace drlnet
