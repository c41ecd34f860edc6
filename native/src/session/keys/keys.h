// Which keys a server knows. A key file's reader is drlnet/config/keys.py.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "session/keys/crypto.h"
#include "wire/frame.h"

namespace drlnet {

// A client's: its own secret, and the public key of the one server that it speaks to.
struct ClientKey {
  Key secret, server;
};

// A server's identity, and the public keys of its clients. Threading: never changes.
struct ServerKeys {
  ServerKeys(const Key& secret, const std::array<Key, kRoles>& clients);

  std::optional<Role> role_of(const Key& client) const;

  Key secret, public_key;
  std::array<Key, kRoles> clients;  // by role
  uint32_t id;                      // what hellos name it by
};

uint32_t key_id(const Key& server);

// While keys are replaced, the new ones and the former ones.
constexpr size_t kMaxIdentities = 2;
using KeyRing = std::vector<ServerKeys>;

// What a server's shards have in common. Threading: any thread.
class KeyStore {
 public:
  explicit KeyStore(KeyRing ring) { set(std::move(ring)); }  // throws Error(config), as set()
  void set(KeyRing ring);
  std::shared_ptr<const KeyRing> ring() const {
    const std::lock_guard lock(mutex_);
    return ring_;
  }
  // Grows when the ring changes.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const KeyRing> ring_;
  std::atomic<uint64_t> version_{0};
};

}  // namespace drlnet
