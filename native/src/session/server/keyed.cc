// The server's side of sealed sessions: how they begin, what is taken of frames that come, and what
// a client's key lets it ask for.
#include <algorithm>
#include <cstring>
#include <string>

#include "session/server/sessions.h"
#include "wire/messages.h"

namespace drlnet {
namespace {

Key ephemeral_of(const KeyedHello& hello) {
  Key key;
  std::memcpy(key.data(), hello.message.data(), key.size());
  return key;
}

}  // namespace

void Sessions::require_keys(std::shared_ptr<const KeyStore> keys) {
  doorkeeper_ = std::make_unique<Doorkeeper>(std::move(keys));
}

void Sessions::on_keyed_frame(uint16_t listener, const RxFrame& frame, uint64_t now) {
  FrameHeader header;
  if (!Sealing::is_sealed(frame.data)) {
    if (const auto reason = parse_frame(frame.data, header)) return drop(*reason);
    if (!intact(frame.data) && (header.version == kVersion || sealed(frame.data))) {
      return drop(Drop::checksum);
    }
    if (header.kind == FrameKind::keyed_hello) return on_keyed_hello(listener, frame, header, now);
    if (header.kind == FrameKind::hello) {
      if (!heed_stranger()) return;
      Hello hello;
      std::memcpy(&hello, frame_payload(frame.data).data(), sizeof hello);
      return refuse(listener, frame.from, hello.nonce, Status::forbidden, "the server wants a key",
                    "give one with --key FILE, or DRLNET_KEY_FILE");
    }
    // A session that began before the server had keys: to say hello again, and be told.
    peer_of(listener, frame, header);
    return;
  }
  if (frame.data.size() < kHeaderBytes) return drop(Drop::short_frame);
  std::memcpy(&header, frame.data.data(), sizeof header);
  if (header.magic != kMagic) return drop(Drop::magic);
  header.kind = static_cast<FrameKind>(static_cast<uint8_t>(header.kind) & ~kSealedBit);
  Peer* peer = peer_of(listener, frame, header);
  if (peer == nullptr) return;
  switch (peer->sealing->open(frame.data, doorkeeper_->opened.data())) {
    case Sealing::Opened::forged:
      return drop(Drop::forged);
    case Sealing::Opened::replayed:
      return drop(Drop::replayed);
    case Sealing::Opened::whole:
      break;
  }
  const auto opened = std::span<const std::byte>(doorkeeper_->opened).first(frame.data.size());
  if (const auto reason = parse_frame(opened, header)) return drop(*reason);
  if (!peer->proved && !prove(*peer, header)) return;
  on_session_frame(*peer, header, opened, now);
}

void Sessions::on_keyed_hello(uint16_t listener, const RxFrame& frame, const FrameHeader& header,
                              uint64_t now) {
  if (header.version != kVersion) {
    if (!heed_stranger()) return;
    return refuse_version(listener, frame.from, header.request, header);
  }
  // Before the handshake, which costs more than the answer tells.
  if (!loading_.empty()) return refuse_while_loading(listener, frame.from, header.request);
  heed_new_keys();  // the hello may be by one of them
  const auto refuse_key = [&](std::string_view cause) {
    refuse(listener, frame.from, header.request, Status::forbidden, cause,
           "ask for a key file of this server: `drlnet keygen` makes them");
  };
  KeyedHello hello;
  std::memcpy(&hello, frame_payload(frame.data).data(), sizeof hello);
  const Key ephemeral = ephemeral_of(hello);
  if (const auto session = doorkeeper_->session_of(ephemeral)) {
    Peer* known = find(*session);
    if (known != nullptr && known->endpoint == frame.from && known->ephemeral == ephemeral) {
      if (!has_share(*known)) return;
      ++known->work;
      return welcome_again(*known, listener, frame, header);
    }
  }
  if (!heed_stranger()) return;
  std::optional<Doorkeeper::Client> client;
  switch (doorkeeper_->read(listener, frame.from, hello, now, client)) {
    case Doorkeeper::Answer::cookie: {
      FrameHeader answer;
      answer.kind = FrameKind::cookie;
      answer.request = header.request;
      const auto cookie = doorkeeper_->cookie_for(listener, frame.from, now);
      answer.length = sizeof cookie;
      return send_stateless(listener, frame.from, answer, cookie, 0);
    }
    case Doorkeeper::Answer::elsewhere:
      return refuse_key("the key is for another server, or for keys that this one has replaced");
    case Doorkeeper::Answer::stranger:
      return refuse_key("the server does not know this key");
    case Doorkeeper::Answer::forged:
      return drop(Drop::forged);
    case Doorkeeper::Answer::busy:
      return;  // the client says it again
    case Doorkeeper::Answer::known:
      break;
  }
  const size_t index = free_place();
  if (index == kMaxPeers) return refuse_full(listener, frame.from, header.request);
  make_room();
  admit(index, listener, client->hello, frame.from);
  Peer& peer = *peers_[index];
  const bool aes = has_aes_instructions() && (client->hello.capabilities & kAes) != 0;
  Admission admission;
  admission.welcome = make_welcome(listener, client->hello.nonce);
  if (aes) admission.welcome.capabilities |= kAes;
  admission.connection = peer.connection;
  admission.credit = credits_[listener];
  const auto keys = client->responder.finish(std::as_bytes(std::span(&admission, 1)), peer.welcome);
  if (!keys) {
    end(index);
    return drop(Drop::forged);
  }
  peer.sealing = std::make_unique<Sealing>(aes ? Suite::aes_256_gcm : Suite::chacha20_poly1305,
                                           *keys, Sealing::Side::server);
  peer.role = client->role;
  peer.key = client->key;
  peer.ephemeral = ephemeral;
  peer.last_heard_ns = now;
  doorkeeper_->remember(ephemeral, peer.connection);
  welcome_again(peer, listener, frame, header);
}

void Sessions::welcome_again(const Peer& peer, uint16_t listener, const RxFrame& frame,
                             const FrameHeader& hello) {
  FrameHeader header;
  header.kind = FrameKind::keyed_welcome;
  header.request = hello.request;
  header.length = static_cast<uint32_t>(peer.welcome.size());
  send_stateless(listener, frame.from, header, peer.welcome, frame.data.size());
}

// Ends the sessions of keys that the server knows no more.
void Sessions::heed_new_keys() {
  if (!doorkeeper_->refresh()) return;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i] && peers_[i]->sealing && !doorkeeper_->role_of(peers_[i]->key)) end(i);
  }
}

uint16_t Sessions::refuse_rights(const Peer& peer, Slot& slot) {
  ++rights_refused_;
  const std::string role = role_name(role_for(slot.operation));
  slot.status = Status::forbidden;
  encode_error(std::string(operation_name(slot.operation)) + ": the key of " +
                   (peer.role == Role::actor ? "an " : "a ") + role_name(peer.role) +
                   " does not allow it",
               "give --key the file of the " + role, slot.bytes);
  return 0;
}

}  // namespace drlnet
