#include "session/server/doorkeeper.h"

#include <algorithm>
#include <cstring>

namespace drlnet {
namespace {

constexpr uint64_t kSlotNs = 10'000'000'000;  // a cookie is good for one to two of them
constexpr uint64_t kSecondNs = 1'000'000'000;

uint64_t beginning_of(const Key& key) {
  uint64_t word;
  std::memcpy(&word, key.data(), sizeof word);
  return word;
}

template <typename Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Doorkeeper::Doorkeeper(std::shared_ptr<const KeyStore> keys)
    : keys_(std::move(keys)), cookie_secret_(random_key()) {
  refresh();
}

bool Doorkeeper::refresh() {
  const uint64_t version = keys_->version();
  if (version == version_) return false;
  version_ = version;
  ring_ = keys_->ring();
  return true;
}

std::optional<Role> Doorkeeper::role_of(const Key& client) const {
  for (const ServerKeys& identity : *ring_) {
    if (const auto role = identity.role_of(client)) return role;
  }
  return std::nullopt;
}

Doorkeeper::Cookie Doorkeeper::cookie_of(uint16_t listener, const Endpoint& from,
                                         uint64_t slot) const {
  const Key code = hmac(cookie_secret_, {bytes_of(listener), from.bytes, bytes_of(slot)});
  Cookie cookie;
  std::copy_n(code.begin(), cookie.size(), cookie.begin());
  return cookie;
}

Doorkeeper::Cookie Doorkeeper::cookie_for(uint16_t listener, const Endpoint& from,
                                          uint64_t now) const {
  return cookie_of(listener, from, now / kSlotNs);
}

Doorkeeper::Answer Doorkeeper::read(uint16_t listener, const Endpoint& from,
                                    const KeyedHello& hello, uint64_t now,
                                    std::optional<Client>& client) {
  const uint64_t slot = now / kSlotNs;
  const bool fresh = same_secret(hello.cookie, cookie_of(listener, from, slot)) ||
                     same_secret(hello.cookie, cookie_of(listener, from, slot - 1));
  if (!fresh) return Answer::cookie;
  if (now >= second_ + kSecondNs) {
    second_ = now;
    looked_at_ = 0;
  }
  if (looked_at_ == kHandshakes || looked_at_in_turn_ == kHandshakesOfTurn) {
    ++deferred;
    return Answer::busy;
  }
  ++looked_at_;
  ++looked_at_in_turn_;
  const auto identity = std::ranges::find(*ring_, hello.key_id, &ServerKeys::id);
  if (identity == ring_->end()) {
    ++refused;
    return Answer::elsewhere;
  }
  client.emplace(Client{
      .hello = {}, .responder = Responder(identity->secret, identity->public_key, hello.cookie)});
  const auto key =
      client->responder.read(hello.message, std::as_writable_bytes(std::span(&client->hello, 1)));
  const auto role = key ? identity->role_of(*key) : std::nullopt;
  if (!role) {
    ++refused;
    return key ? Answer::stranger : Answer::forged;
  }
  client->key = *key;
  client->role = *role;
  ++handshakes;
  return Answer::known;
}

std::optional<uint32_t> Doorkeeper::session_of(const Key& ephemeral) const {
  const auto known = sessions_.find(beginning_of(ephemeral));
  return known == sessions_.end() ? std::nullopt : std::optional(known->second);
}

void Doorkeeper::remember(const Key& ephemeral, uint32_t connection) {
  sessions_[beginning_of(ephemeral)] = connection;
}

void Doorkeeper::forget(const Key& ephemeral) { sessions_.erase(beginning_of(ephemeral)); }

}  // namespace drlnet
