// What sealed sessions are made of, by OpenSSL's libcrypto: key agreement (X25519), SHA-256, HMAC
// and authenticated encryption, for AES-GCM by intel-ipsec-mb where it is there. Threading: the
// functions from any thread, an Aead from one.
#pragma once

#include <openssl/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

namespace drlnet {

constexpr size_t kKeyBytes = 32;
constexpr size_t kTagBytes = 16;
using Key = std::array<std::byte, kKeyBytes>;  // of either half of a pair, of a cipher, or a digest

Key random_key();  // by the world's secrets
Key public_of(const Key& secret);
// The secret that both sides of an exchange come to. False where the other's key is one that makes
// it the same for all (RFC 7748, 6.1).
bool agree(const Key& secret, const Key& other, Key& shared);

using Parts = std::initializer_list<std::span<const std::byte>>;
Key sha256(Parts parts);
Key hmac(const Key& key, Parts parts);
// Without telling by its time where they differ.
bool same_secret(std::span<const std::byte> one, std::span<const std::byte> other);

enum class Suite : uint8_t { aes_256_gcm, chacha20_poly1305 };
// AES-GCM by the processor's instructions; without them ChaCha20-Poly1305 is faster, and its time
// tells nothing of the key.
bool has_aes_instructions();

class IpsecMb;

// One key in one direction: made once, as that costs more than to seal a small frame.
class Aead {
 public:
  enum class Side : uint8_t { seals, opens };
  enum class By : uint8_t { fastest, openssl };

  Aead(Suite suite, const Key& key, Side side, By by = By::fastest);
  Aead(Aead&&) noexcept;
  Aead& operator=(Aead&&) noexcept;
  ~Aead();
  // A message: begin, any number of pieces, and its end. No nonce may come twice for one key.
  void begin(uint64_t nonce, std::span<const std::byte> associated);
  void piece(std::byte* to, const std::byte* from, size_t bytes);  // may be the same place
  void end(std::byte* tag);
  // False: it was not sealed with this key, or has been altered; what was opened is not to be used.
  bool end_with(const std::byte* tag);

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const;
  };
  std::unique_ptr<IpsecMb> ipsec_mb_;  // or else:
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
  bool seals_;
};

}  // namespace drlnet
