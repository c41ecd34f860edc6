// How sessions begin and end on the server's side.
#include <algorithm>

#include "session/server/sessions.h"
#include "wire/messages.h"

namespace drlnet {

void Sessions::on_hello(uint16_t listener, const RxFrame& frame, const FrameHeader& hello_header,
                        uint64_t now) {
  Hello hello;
  std::memcpy(&hello, frame_payload(frame.data).data(), sizeof hello);
  FrameHeader header;
  const auto refuse = [&](Status status, std::string_view cause, std::string_view remedy) {
    Bytes text;
    encode_error(cause, remedy, text);
    header.kind = FrameKind::refuse;
    header.status = static_cast<uint16_t>(status);
    header.length = static_cast<uint32_t>(text.size());
    header.request = hello.nonce;
    send_stateless(listener, frame.from, header, text, 0);
  };
  if (hello_header.version != kVersion) {
    return refuse(Status::protocol,
                  "the server speaks protocol version " + std::to_string(kVersion) +
                      ", the client version " + std::to_string(hello_header.version),
                  "install the same drlnet on both sides");
  }
  const size_t index = place_for(hello, frame.from);
  if (index == kMaxPeers) {
    return refuse(Status::server_full,
                  "the server has " + std::to_string(kMaxPeers) + " clients, its maximum",
                  "end some of them, or start another server");
  }
  if (!peers_[index]) admit(index, listener, hello, frame.from);
  Peer& peer = *peers_[index];
  peer.last_heard_ns = now;
  Welcome welcome;
  welcome.boot = boot_;
  welcome.nonce = hello.nonce;
  welcome.shard = shard_;
  welcome.shards = shards_;
  if (!transports_[listener]->takes_joined_frames()) welcome.capabilities |= kFramesApart;
  header.kind = FrameKind::welcome;
  header.connection = peer.connection;
  header.length = sizeof welcome;
  header.credit = credits_[peer.listener];
  send_stateless(listener, frame.from, header, std::as_bytes(std::span(&welcome, 1)),
                 frame.data.size());
}

// The index of the session that this hello, resent, has opened; else the lowest that is free once
// the client's former session has ended; kMaxPeers when there is none.
size_t Sessions::place_for(const Hello& hello, const Endpoint& from) {
  size_t place = kMaxPeers;
  for (size_t i = kMaxPeers; i-- > 0;) {
    if (!peers_[i]) {
      place = i;
    } else if (peers_[i]->client == hello.client) {
      if (peers_[i]->nonce == hello.nonce && peers_[i]->endpoint == from) return i;
      end(i);  // it comes back before its former session went silent
      place = i;
    }
  }
  return place;
}

void Sessions::admit(size_t index, uint16_t listener, const Hello& hello, const Endpoint& from) {
  auto peer = std::make_unique<Peer>(hello);
  const auto random_bits = static_cast<uint32_t>(random_.bits()) << kIndexBits;
  peer->connection = random_bits | static_cast<uint32_t>(index);
  if (peer->connection == 0) peer->connection = 1u << kIndexBits;
  peer->listener = listener;
  peer->frames_apart = (hello.capabilities & kFramesApart) != 0;
  peer->endpoint = from;
  peer->name = distinct(peer->name);
  ++peers_on_[listener];
  share_credit(listener);
  peers_[index] = std::move(peer);
  peers_end_ = std::max(peers_end_, index + 1);
}

// The name itself, or the first of name~2, name~3, ... that no other client has.
std::string Sessions::distinct(const std::string& name) const {
  std::string candidate = name;
  const auto taken = [&](const auto& peer) { return peer && peer->name == candidate; };
  for (int n = 2; std::ranges::any_of(peers_, taken); ++n) {
    candidate = name + "~" + std::to_string(n);
  }
  return candidate;
}

void Sessions::end(size_t index) {
  Peer& peer = *peers_[index];
  handler_.ended(peer);
  for (size_t i = 0; i < kLanes; ++i) {
    if (const Slot* slot = peer.lanes[i].waiting()) end_wait(peer, static_cast<Lane>(i), *slot);
  }
  logs_[peer.listener]->of_ended.add(peer.traffic);
  --peers_on_[peers_[index]->listener];
  share_credit(peers_[index]->listener);
  // Frames name sessions by connection number, so none of them dangles; acks name slots and go
  // first.
  std::erase_if(acks_, [&](const auto& ack) { return ack.first == peers_[index]->connection; });
  peers_[index].reset();
  ran_ = true;  // what it held up may go on
  while (peers_end_ > 0 && !peers_[peers_end_ - 1]) --peers_end_;
}

void Sessions::stood_still(uint64_t ns, uint64_t now) {
  for (const auto& peer : peers_) {
    if (peer) peer->last_heard_ns = std::min(peer->last_heard_ns + ns, now);
  }
}

void Sessions::expire(uint64_t now) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i] && now > peers_[i]->last_heard_ns + kSilenceNs) end(i);
  }
}

}  // namespace drlnet
