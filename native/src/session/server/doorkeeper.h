// Lets clients with keys in: tells their roles, and keeps what that costs bounded, whatever hellos
// come. Nothing is allocated for an address before a hello has brought its cookie, which only
// what receives there can know; then at most kHandshakes a second are looked at, and
// kHandshakesOfTurn between two looks for frames.
// Threading: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "session/keys/keys.h"
#include "session/keys/noise.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace drlnet {

class Doorkeeper {
 public:
  // Some 100 us each: half of a core's time at most.
  static constexpr uint32_t kHandshakes = 4096;
  // In one turn, so that sessions wait no longer for them.
  static constexpr uint32_t kHandshakesOfTurn = 4;

  using Cookie = std::array<std::byte, sizeof(KeyedHello::cookie)>;
  enum class Answer : uint8_t {
    known,      // read(): the client may come in
    cookie,     // the hello has none, or an old one
    stranger,   // the client's key is none of the server's
    elsewhere,  // the hello is for another server, or for keys that have been replaced
    forged,
    busy,
  };
  struct Client {
    Hello hello;
    Role role{};
    Key key{};
    Responder responder;
  };

  explicit Doorkeeper(std::shared_ptr<const KeyStore> keys);

  void begin_turn() { looked_at_in_turn_ = 0; }
  // Takes over what the store has; true where that has changed.
  bool refresh();
  // The role that this key has now.
  std::optional<Role> role_of(const Key& client) const;

  Cookie cookie_for(uint16_t listener, const Endpoint& from, uint64_t now_ns) const;
  Answer read(uint16_t listener, const Endpoint& from, const KeyedHello& hello, uint64_t now_ns,
              std::optional<Client>& client);

  // The session whose hello had this ephemeral key: it comes in frames of several sizes.
  std::optional<uint32_t> session_of(const Key& ephemeral) const;
  void remember(const Key& ephemeral, uint32_t connection);
  void forget(const Key& ephemeral);

  // Room for the sealed frame in hand, opened.
  alignas(64) std::array<std::byte, kMaxFrameBytes> opened;
  uint64_t handshakes = 0, refused = 0, deferred = 0;  // deferred: too many at once

 private:
  Cookie cookie_of(uint16_t listener, const Endpoint& from, uint64_t slot) const;

  std::shared_ptr<const KeyStore> keys_;
  std::shared_ptr<const KeyRing> ring_;
  uint64_t version_ = 0;
  Key cookie_secret_;
  uint64_t second_ = 0;  // in which looked_at_ were looked at
  uint32_t looked_at_ = 0, looked_at_in_turn_ = 0;
  std::unordered_map<uint64_t, uint32_t> sessions_;  // by the beginning of their ephemeral keys
};

}  // namespace drlnet
