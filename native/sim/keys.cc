#include "keys.h"

#include "calls.h"

namespace drlnet::sim {
namespace {

struct Overreach {
  Role least;  // that may do it
  void (*ask)(Client& client);
};

// They name any table: rights are looked at before what is asked for.
constexpr Overreach kOverreaches[] = {
    {Role::learner, [](Client& client) { client.publish({}); }},
    {Role::learner, [](Client& client) { client.take_over(); }},
    {Role::learner,
     [](Client& client) {
       const uint64_t key = 1;
       const float priority = 1;
       client.update_priorities(0, std::span(&key, 1), std::span(&priority, 1));
     }},
    {Role::learner, [](Client& client) { client.empty_table(0); }},
    {Role::learner, [](Client& client) { client.drop_table(0); }},
    {Role::learner, [](Client& client) { client.put_blob("run", {}); }},
    {Role::actor, [](Client& client) { client.lease(0, 1); }},
    {Role::actor,
     [](Client& client) {
       std::vector<std::byte> params;
       client.fetch(0, params);
     }},
    {Role::actor, [](Client& client) { client.report({}); }},
};

}  // namespace

Keys::Keys() {
  const Key secret = random_key();
  std::array<Key, kRoles> known;
  for (size_t role = 0; role < kRoles; ++role) {
    clients_[role] = random_key();
    known[role] = public_of(clients_[role]);
  }
  const ServerKeys server(secret, known);
  server_ = server.public_key;
  store_ = std::make_shared<KeyStore>(KeyRing{server});
}

void load_ciphers() {
  for (const Suite suite : {Suite::aes_256_gcm, Suite::chacha20_poly1305}) {
    Aead aead(suite, public_of(sha256({})), Aead::Side::seals);
    std::array<std::byte, kTagBytes> tag;
    aead.begin(1, {});
    aead.end(tag.data());
  }
}

void overreach(Run& run, Client& client, Role role, Random& random) {
  if (!run.keys || random.below(8) != 0) return;
  const Overreach& one = kOverreaches[random.below(std::size(kOverreaches))];
  if (role >= one.least) return;
  try {
    one.ask(client);
  } catch (const Error& error) {
    if (error.status() != Status::forbidden) throw;
    return run.world.mark("requests that a role has no right to");
  }
  broken("a key allows what its role may do, and no more: that of the " +
         std::string(role_name(role)));
}

void intrude(Run& run, const std::string& server, uint64_t timeout_ns, Random& random) {
  ClientOptions options{server, "stranger", timeout_ns, Poll::block};
  if (random.below(2) == 0) options.key = ClientKey{random_key(), run.keys->of(Role::actor).server};
  try {
    const Client client(options);
  } catch (const Error& error) {
    if (error.status() != Status::forbidden) throw;
    return run.world.mark("strangers refused");
  }
  broken("a client without a key that the server knows is refused");
}

}  // namespace drlnet::sim
