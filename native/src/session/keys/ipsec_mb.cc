#include "session/keys/ipsec_mb.h"

#include "base/assert.h"

#ifdef DRLNET_IPSEC_MB
#include <dlfcn.h>
#include <intel-ipsec-mb.h>
#include <string.h>

#include <string>

namespace drlnet {
namespace {

// Its functions for this processor; null where they cannot be had.
const IMB_MGR* load() {
  if (!has_aes_instructions()) return nullptr;
  const std::string name = "libIPSec_MB.so." + std::to_string(IMB_VERSION_NUM >> 16);
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto version =
      reinterpret_cast<decltype(&imb_get_version)>(dlsym(library, "imb_get_version"));
  const auto allocate = reinterpret_cast<decltype(&alloc_mb_mgr)>(dlsym(library, "alloc_mb_mgr"));
  const auto choose =
      reinterpret_cast<decltype(&init_mb_mgr_auto)>(dlsym(library, "init_mb_mgr_auto"));
  const auto trouble = reinterpret_cast<decltype(&imb_get_errno)>(dlsym(library, "imb_get_errno"));
  if (version == nullptr || allocate == nullptr || choose == nullptr || trouble == nullptr) {
    return nullptr;
  }
  if (version() < IMB_VERSION_NUM) return nullptr;  // older than the header
  IMB_MGR* const functions = allocate(0);
  if (functions == nullptr) return nullptr;
  choose(functions, nullptr);
  return trouble(functions) == 0 ? functions : nullptr;
}

const IMB_MGR* functions() {
  static const IMB_MGR* const loaded = load();  // for the life of the process
  return loaded;
}

}  // namespace

struct IpsecMb::State {
  gcm_key_data key;
  gcm_context_data message;
};

void IpsecMb::Free::operator()(State* state) const {
  explicit_bzero(state, sizeof *state);
  delete state;
}

bool IpsecMb::is_there() { return functions() != nullptr; }

IpsecMb::IpsecMb(const Key& key) : state_(new State) {
  DRLNET_ASSERT(is_there());
  IMB_AES256_GCM_PRE(functions(), key.data(), &state_->key);
}

void IpsecMb::begin(std::span<const uint8_t, 12> nonce, std::span<const std::byte> associated) {
  IMB_AES256_GCM_INIT(functions(), &state_->key, &state_->message, nonce.data(),
                      reinterpret_cast<const uint8_t*>(associated.data()), associated.size());
}

void IpsecMb::piece(bool seals, std::byte* to, const std::byte* from, size_t bytes) {
  auto* const out = reinterpret_cast<uint8_t*>(to);
  const auto* const in = reinterpret_cast<const uint8_t*>(from);
  if (seals) {
    IMB_AES256_GCM_ENC_UPDATE(functions(), &state_->key, &state_->message, out, in, bytes);
  } else {
    IMB_AES256_GCM_DEC_UPDATE(functions(), &state_->key, &state_->message, out, in, bytes);
  }
}

void IpsecMb::end(bool seals, std::byte* tag) {
  auto* const out = reinterpret_cast<uint8_t*>(tag);
  if (seals) {
    IMB_AES256_GCM_ENC_FINALIZE(functions(), &state_->key, &state_->message, out, kTagBytes);
  } else {
    IMB_AES256_GCM_DEC_FINALIZE(functions(), &state_->key, &state_->message, out, kTagBytes);
  }
}

}  // namespace drlnet

#else

namespace drlnet {

struct IpsecMb::State {};
void IpsecMb::Free::operator()(State* state) const { delete state; }
bool IpsecMb::is_there() { return false; }
IpsecMb::IpsecMb(const Key&) { DRLNET_ASSERT(is_there()); }
void IpsecMb::begin(std::span<const uint8_t, 12>, std::span<const std::byte>) {}
void IpsecMb::piece(bool, std::byte*, const std::byte*, size_t) {}
void IpsecMb::end(bool, std::byte*) {}

}  // namespace drlnet

#endif
