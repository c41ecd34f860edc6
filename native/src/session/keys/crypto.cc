#include "session/keys/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <cstring>
#include <vector>

#include "base/assert.h"
#include "base/world.h"
#include "session/keys/ipsec_mb.h"

namespace drlnet {
namespace {

const unsigned char* bytes_of(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* bytes_of(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeKey>;

PrivateKey private_key(const Key& secret) {
  PrivateKey key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, bytes_of(secret.data()),
                                              secret.size()));
  DRLNET_ASSERT(key != nullptr);
  return key;
}

}  // namespace

Key random_key() {
  Key key;
  for (size_t at = 0; at < key.size(); at += sizeof(uint64_t)) {
    const uint64_t word = random_secret();
    std::memcpy(key.data() + at, &word, sizeof word);
  }
  return key;
}

Key public_of(const Key& secret) {
  Key result;
  size_t bytes = result.size();
  DRLNET_ASSERT(
      EVP_PKEY_get_raw_public_key(private_key(secret).get(), bytes_of(result.data()), &bytes) == 1);
  return result;
}

bool agree(const Key& secret, const Key& other, Key& shared) {
  const PrivateKey own = private_key(secret);
  const PrivateKey peer(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, bytes_of(other.data()), other.size()));
  const std::unique_ptr<EVP_PKEY_CTX, FreeKey> context(EVP_PKEY_CTX_new(own.get(), nullptr));
  DRLNET_ASSERT(peer != nullptr && context != nullptr);
  size_t bytes = shared.size();
  return EVP_PKEY_derive_init(context.get()) == 1 &&
         EVP_PKEY_derive_set_peer(context.get(), peer.get()) == 1 &&
         EVP_PKEY_derive(context.get(), bytes_of(shared.data()), &bytes) == 1;
}

Key sha256(Parts parts) {
  const std::unique_ptr<EVP_MD_CTX, FreeKey> context(EVP_MD_CTX_new());
  Key result;
  bool done = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const auto part : parts) {
    done = done && EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
  }
  DRLNET_ASSERT(done && EVP_DigestFinal_ex(context.get(), bytes_of(result.data()), nullptr) == 1);
  return result;
}

Key hmac(const Key& key, Parts parts) {
  std::vector<std::byte> whole;
  for (const auto part : parts) whole.insert(whole.end(), part.begin(), part.end());
  Key result;
  DRLNET_ASSERT(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(whole.data()),
                     whole.size(), bytes_of(result.data()), nullptr) != nullptr);
  return result;
}

bool same_secret(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

bool has_aes_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
  constexpr unsigned long kAes = 1 << 3, kPmull = 1 << 4;
  return (getauxval(AT_HWCAP) & (kAes | kPmull)) == (kAes | kPmull);
#else
  return false;
#endif
}

void Aead::Free::operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }

Aead::Aead(Aead&&) noexcept = default;
Aead& Aead::operator=(Aead&&) noexcept = default;
Aead::~Aead() = default;

Aead::Aead(Suite suite, const Key& key, Side side, By by) : seals_(side == Side::seals) {
  if (suite == Suite::aes_256_gcm && by == By::fastest && IpsecMb::is_there()) {
    ipsec_mb_ = std::make_unique<IpsecMb>(key);
    return;
  }
  context_.reset(EVP_CIPHER_CTX_new());
  const EVP_CIPHER* cipher =
      suite == Suite::aes_256_gcm ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
  DRLNET_ASSERT(context_ != nullptr &&
                EVP_CipherInit_ex(context_.get(), cipher, nullptr, bytes_of(key.data()), nullptr,
                                  seals_ ? 1 : 0) == 1);
}

void Aead::begin(uint64_t nonce, std::span<const std::byte> associated) {
  std::array<unsigned char, 12> iv{};
  std::memcpy(iv.data() + 4, &nonce, sizeof nonce);
  if (ipsec_mb_) return ipsec_mb_->begin(iv, associated);
  int bytes = 0;
  DRLNET_ASSERT(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, iv.data(), -1) == 1);
  if (associated.empty()) return;
  DRLNET_ASSERT(EVP_CipherUpdate(context_.get(), nullptr, &bytes, bytes_of(associated.data()),
                                 static_cast<int>(associated.size())) == 1);
}

void Aead::piece(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return;
  if (ipsec_mb_) return ipsec_mb_->piece(seals_, to, from, bytes);
  int written = 0;
  DRLNET_ASSERT(EVP_CipherUpdate(context_.get(), bytes_of(to), &written, bytes_of(from),
                                 static_cast<int>(bytes)) == 1);
}

void Aead::end(std::byte* tag) {
  if (ipsec_mb_) return ipsec_mb_->end(seals_, tag);
  int written = 0;
  std::array<unsigned char, kTagBytes> none;
  DRLNET_ASSERT(seals_ && EVP_CipherFinal_ex(context_.get(), none.data(), &written) == 1 &&
                EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag) == 1);
}

bool Aead::end_with(const std::byte* tag) {
  if (ipsec_mb_) {
    std::array<std::byte, kTagBytes> own;
    ipsec_mb_->end(seals_, own.data());
    return same_secret(own, {tag, kTagBytes});
  }
  int written = 0;
  std::array<unsigned char, kTagBytes> none, expected;
  std::memcpy(expected.data(), tag, expected.size());
  DRLNET_ASSERT(!seals_ && EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes,
                                               expected.data()) == 1);
  return EVP_CipherFinal_ex(context_.get(), none.data(), &written) == 1;
}

}  // namespace drlnet
