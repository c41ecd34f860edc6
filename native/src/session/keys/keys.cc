#include "session/keys/keys.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"

namespace drlnet {

uint32_t key_id(const Key& server) {
  const Key digest = sha256({server});
  uint32_t id;
  std::memcpy(&id, digest.data(), sizeof id);
  return id;
}

ServerKeys::ServerKeys(const Key& secret, const std::array<Key, kRoles>& clients)
    : secret(secret), public_key(public_of(secret)), clients(clients), id(key_id(public_key)) {}

std::optional<Role> ServerKeys::role_of(const Key& client) const {
  for (size_t role = 0; role < kRoles; ++role) {
    if (same_secret(clients[role], client)) return static_cast<Role>(role);
  }
  if (same_secret(public_key, client)) return Role::learner;  // another process of the same server
  return std::nullopt;
}

void KeyStore::set(KeyRing ring) {
  if (ring.empty() || ring.size() > kMaxIdentities) {
    throw Error(Status::config, "a server of " + std::to_string(ring.size()) + " identities",
                "give it 1 to " + std::to_string(kMaxIdentities));
  }
  const std::lock_guard lock(mutex_);
  ring_ = std::make_shared<const KeyRing>(std::move(ring));
  ++version_;
}

}  // namespace drlnet
