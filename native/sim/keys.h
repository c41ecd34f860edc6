// The keys of a simulated server and its clients, and what their roles may not ask for.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/random.h"
#include "client/client.h"
#include "session/keys/keys.h"

namespace drlnet::sim {

struct Run;

class Keys {
 public:
  Keys();  // of the world's secrets

  const std::shared_ptr<KeyStore>& store() const { return store_; }
  ClientKey of(Role role) const { return {clients_[static_cast<size_t>(role)], server_}; }

 private:
  std::array<Key, kRoles> clients_;
  Key server_{};  // its public key
  std::shared_ptr<KeyStore> store_;
};

// Has the process load its ciphers: those that are forked from it do without.
void load_ciphers();

// Where there are keys, asks now and then for something that the role's key gives no right to: it
// is refused, and does nothing.
void overreach(Run& run, Client& client, Role role, Random& random);
// Connects without a key, or by one that the server does not know: it is refused.
void intrude(Run& run, const std::string& server, uint64_t timeout_ns, Random& random);

}  // namespace drlnet::sim
