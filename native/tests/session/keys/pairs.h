// Key pairs of a server and its clients, the same in every test.
#pragma once

#include <memory>

#include "session/keys/keys.h"

namespace drlnet::test {

inline Key secret_of(unsigned number) {
  Key key;
  key.fill(static_cast<std::byte>(number));
  return key;
}

// A server, and the clients of its three roles.
struct Pairs {
  Key server, clients[kRoles];

  explicit Pairs(unsigned first = 10) : server(secret_of(first)) {
    for (unsigned role = 0; role < kRoles; ++role) clients[role] = secret_of(first + 1 + role);
  }
  ServerKeys identity() const {
    return {server, {public_of(clients[0]), public_of(clients[1]), public_of(clients[2])}};
  }
  ClientKey key(Role role) const { return {clients[static_cast<size_t>(role)], public_of(server)}; }
  std::shared_ptr<KeyStore> store() const {
    return std::make_shared<KeyStore>(KeyRing{identity()});
  }
};

}  // namespace drlnet::test
