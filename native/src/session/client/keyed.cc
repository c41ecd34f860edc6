// The client's side of a sealed session: its handshake, and what is taken of frames that come.
#include <algorithm>
#include <cstring>

#include "session/client/connection.h"

namespace drlnet {
namespace {

// An honest server takes a cookie for longer; another one that comes sooner may be anybody's.
constexpr uint64_t kCookieNs = 1'000'000'000;
// A reset is not sealed, as its server knows no key: it is believed where the server is silent.
constexpr uint64_t kSilenceNs = 20'000'000;

}  // namespace

void Connection::say_keyed_hello() {
  keyed_->hello.key_id = key_id(keyed_->key.server);
  const auto hello = std::as_bytes(std::span(&keyed_->hello, 1));
  if (keyed_->initiator) return probe_sizes(FrameKind::keyed_hello, hello);
  TxFrame* frame = outbox_.next(server_, true);
  if (frame == nullptr) return;
  FrameHeader header;
  header.kind = FrameKind::keyed_hello;
  header.frame_bytes = kMinFrameBytes;
  header.request = nonce_;
  header.length = static_cast<uint32_t>(hello.size());
  write_header(frame->data, header);
  std::memcpy(frame->data + kHeaderBytes, hello.data(), hello.size());
  frame->length = static_cast<uint32_t>(kHeaderBytes + hello.size());
  traffic_.sent(frame->length);
}

void Connection::forget_handshake() {
  keyed_->hello = {};
  keyed_->initiator.reset();
  keyed_->answer.clear();
}

void Connection::on_keyed_frame(const RxFrame& frame, uint64_t now) {
  FrameHeader header;
  if (Sealing::is_sealed(frame.data)) {
    std::memcpy(&header, frame.data.data(), std::min(frame.data.size(), sizeof header));
    if (state_ != State::open || header.connection != connection_) {
      ++drops_;
      return;
    }
    switch (keyed_->sealing->open(frame.data, keyed_->opened.data())) {
      case Sealing::Opened::forged:
        ++keyed_->forged;
        return;
      case Sealing::Opened::replayed:
        ++keyed_->replayed;
        return;
      case Sealing::Opened::whole:
        keyed_->opened_ns = now;
        return on_frame({frame.from, std::span(keyed_->opened).first(frame.data.size())}, now);
    }
  }
  if (!whole(frame, {})) return;
  if (parse_frame(frame.data, header)) {
    ++drops_;
    return;
  }
  switch (header.kind) {
    case FrameKind::cookie:
      return on_cookie(header, frame_payload(frame.data), now);
    case FrameKind::keyed_welcome:
      return on_keyed_welcome(header, frame.data, now);
    case FrameKind::refuse:
      return on_frame(frame, now);
    case FrameKind::reset:
      if (now > keyed_->opened_ns + kSilenceNs) return on_frame(frame, now);
      [[fallthrough]];
    default:
      ++drops_;
  }
}

void Connection::on_cookie(const FrameHeader& header, std::span<const std::byte> payload,
                           uint64_t now) {
  const bool known = keyed_->initiator && now < keyed_->cookie_ns + kCookieNs;
  if (state_ != State::hello || header.request != nonce_ || known || sizing_until_ != 0) {
    ++drops_;
    return;
  }
  KeyedHello& hello = keyed_->hello;
  std::memcpy(hello.cookie.data(), payload.data(), hello.cookie.size());
  Hello inner = make_hello();
  if (has_aes_instructions()) inner.capabilities |= kAes;
  // The cookie is in the handshake: this hello is worth nothing from elsewhere, or later.
  keyed_->initiator.emplace(keyed_->key.secret, keyed_->key.server, hello.cookie);
  const auto message = keyed_->initiator->begin(std::as_bytes(std::span(&inner, 1)));
  std::ranges::copy(message, hello.message.begin());
  keyed_->cookie_ns = now;
  hello_at_ns_ = 0;
}

void Connection::on_keyed_welcome(const FrameHeader& header, std::span<const std::byte> frame,
                                  uint64_t now) {
  if (state_ != State::hello || header.request != nonce_ || !keyed_->initiator) {
    ++drops_;
    return;
  }
  KeyedWelcome welcome;
  std::memcpy(&welcome, frame_payload(frame).data(), sizeof welcome);
  Admission& admission = keyed_->admission;
  FrameHeader told = header;
  if (!keyed_->answer.empty()) {  // it comes in frames of several sizes
    if (!std::ranges::equal(welcome.message, keyed_->answer)) {
      ++keyed_->forged;
      return;
    }
    told.connection = admission.connection;
    told.credit = admission.credit;
    return on_welcome(admission.welcome, told, frame.size(), now);
  }
  const auto keys =
      keyed_->initiator->finish(welcome.message, std::as_writable_bytes(std::span(&admission, 1)));
  if (!keys) {
    ++keyed_->forged;
    return;
  }
  keyed_->answer.assign(welcome.message.begin(), welcome.message.end());
  const bool aes = (admission.welcome.capabilities & kAes) != 0;
  outbox_.seal_filled();  // with the former session's keys
  keyed_->sealing = std::make_unique<Sealing>(aes ? Suite::aes_256_gcm : Suite::chacha20_poly1305,
                                              *keys, Sealing::Side::client);
  keyed_->opened_ns = now;
  packet_number_ = 0;
  told.connection = admission.connection;
  told.credit = admission.credit;
  on_welcome(admission.welcome, told, frame.size(), now);
}

}  // namespace drlnet
