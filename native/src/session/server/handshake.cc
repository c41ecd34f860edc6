// How sessions begin and end on the server's side.
#include <algorithm>
#include <charconv>

#include "session/server/sessions.h"
#include "wire/messages.h"

namespace drlnet {
namespace {

// Both are unpredictable, and one client's hellos differ in the second.
uint64_t opening_key(uint64_t client, uint64_t nonce) {
  return client ^ nonce * 0x9E3779B97F4A7C15;
}

}  // namespace

void Sessions::on_hello(uint16_t listener, const RxFrame& frame, const FrameHeader& hello_header,
                        uint64_t now) {
  Hello hello;
  std::memcpy(&hello, frame_payload(frame.data).data(), sizeof hello);
  if (hello_header.version != kVersion) {
    if (!heed_stranger()) return;
    return refuse_version(listener, frame.from, hello.nonce, hello_header);
  }
  if (!loading_.empty()) {
    if (!heed_stranger()) return;
    return refuse_while_loading(listener, frame.from, hello.nonce);
  }
  Peer* opened = opened_by(hello, frame.from);
  if (opened != nullptr) {
    if (!has_share(*opened)) return;
    ++opened->work;
  } else {
    if (!heed_stranger(kOpening)) return;
    const size_t index = free_place();
    if (index == kMaxPeers) return refuse_full(listener, frame.from, hello.nonce);
    make_room();
    admit(index, listener, hello, frame.from);
    opened = peers_[index].get();
  }
  Peer& peer = *opened;
  peer.last_heard_ns = now;
  const Welcome welcome = make_welcome(listener, hello.nonce);
  FrameHeader header;
  header.kind = FrameKind::welcome;
  header.connection = peer.connection;
  header.length = sizeof welcome;
  header.credit = credits_[peer.listener];
  send_stateless(listener, frame.from, header, std::as_bytes(std::span(&welcome, 1)),
                 frame.data.size());
}

Welcome Sessions::make_welcome(uint16_t listener, uint64_t nonce) const {
  Welcome welcome;
  welcome.lineage = identity_.lineage;
  welcome.incarnation = identity_.incarnation;
  welcome.nonce = nonce;
  welcome.shard = shard_;
  welcome.shards = shards_;
  if (!transports_[listener]->takes_joined_frames()) welcome.capabilities |= kFramesApart;
  return welcome;
}

void Sessions::refuse(uint16_t listener, const Endpoint& to, uint64_t nonce, Status status,
                      std::string_view cause, std::string_view remedy) {
  Bytes text;
  encode_error(cause, remedy, text);
  FrameHeader header;
  header.kind = FrameKind::refuse;
  header.status = static_cast<uint16_t>(status);
  header.length = static_cast<uint32_t>(text.size());
  header.request = nonce;
  send_stateless(listener, to, header, text, 0);
}

void Sessions::refuse_version(uint16_t listener, const Endpoint& to, uint64_t nonce,
                              const FrameHeader& header) {
  refuse(listener, to, nonce, Status::protocol,
         "the server speaks protocol version " + std::to_string(kVersion) +
             ", the client version " + std::to_string(header.version),
         "install the same drlnet on both sides");
}

void Sessions::refuse_while_loading(uint16_t listener, const Endpoint& to, uint64_t nonce) {
  constexpr size_t kMostBytes = 128;  // a keyed hello's 296 bytes are more, with all that is around
  refuse(listener, to, nonce, Status::loading,
         std::string_view("the server is " + loading_).substr(0, kMostBytes),
         "it opens sessions once it has");
}

void Sessions::refuse_full(uint16_t listener, const Endpoint& to, uint64_t nonce) {
  refuse(listener, to, nonce, Status::server_full,
         "the server has " + std::to_string(limits_.sessions) + " clients, its maximum",
         "end some of them, or start another server");
}

// The session that this hello has opened, which comes again, or in a frame of another size.
Peer* Sessions::opened_by(const Hello& hello, const Endpoint& from) {
  for (const auto& [indices, key] : {std::pair(&opening_, opening_key(hello.client, hello.nonce)),
                                     std::pair(&indices_, hello.client)}) {
    const auto known = indices->find(key);
    if (known == indices->end()) continue;
    Peer& peer = *peers_[known->second];
    if (peer.nonce == hello.nonce && peer.client == hello.client && peer.endpoint == from) {
      return &peer;
    }
  }
  return nullptr;
}

// The lowest that is free; kMaxPeers when there is none.
size_t Sessions::free_place() {
  if (peer_count_ >= limits_.sessions) {
    end_oldest_half_open();
    if (peer_count_ >= limits_.sessions) {
      refusals_.count(Limit::sessions);
      return kMaxPeers;
    }
  }
  const auto free = [](const auto& peer) { return peer == nullptr; };
  return static_cast<size_t>(std::ranges::find_if(peers_, free) - peers_.begin());
}

// Any address may say hello, in any number: what they leave behind is bounded. A client that loses
// its session so says hello anew with its next request.
void Sessions::make_room() {
  if (half_open_count_ >= limits_.half_open) end_oldest_half_open();
  if (half_open_.size() < 2 * limits_.half_open) return;
  std::erase_if(half_open_, [&](uint32_t connection) {
    const Peer* peer = find(connection);
    return peer == nullptr || peer->proved;
  });
}

void Sessions::end_oldest_half_open() {
  while (!half_open_.empty()) {
    const uint32_t connection = half_open_.front();
    half_open_.pop_front();
    const Peer* peer = find(connection);
    if (peer == nullptr || peer->proved) continue;
    refusals_.count(Limit::half_open);
    return end(index_of(connection));
  }
}

// The client's first frame in the session: it is where its hello said, and wants something. Only
// now it takes the place of its former session, which a stranger's copy of a hello does not end,
// and what costs more than a few microseconds. False: there is no memory for its requests; it is
// told, and the session has ended.
bool Sessions::prove(Peer& peer, const FrameHeader& header) {
  const size_t index = index_of(peer.connection);
  if (const auto former = indices_.find(peer.client); former != indices_.end()) {
    end(former->second);  // first: the memory may be just what it gives back
  }
  try {
    peer.map_bodies();
  } catch (const Error& error) {
    refusals_.count(Limit::sessions);
    Slot refused;
    refused.operation = header.operation;
    refused.request = header.request;
    refused.status = error.status();
    encode_error(error.cause(), error.remedy(), refused.bytes);
    FrameHeader answer = header_for(peer, FrameKind::response, header.lane, refused);
    answer.length = answer.total_bytes = refused.reply_bytes();
    if (header.kind == FrameKind::request) send(peer, answer, refused.bytes);
    end(index);
    return false;
  }
  forget_opening(peer);
  peer.name = distinct(peer.name);
  peer.proved = true;
  indices_[peer.client] = index;
  return true;
}

void Sessions::forget_opening(const Peer& peer) {
  --half_open_count_;
  const auto known = opening_.find(opening_key(peer.client, peer.nonce));
  if (known != opening_.end() && known->second == index_of(peer.connection)) opening_.erase(known);
}

// What is in a body takes memory; let_bodies_go() sees to it that it is not too much.
void Sessions::hold(Peer& peer, Slot& slot, uint32_t bytes) {
  held_bytes_ += peer.hold(slot, bytes, clock_ns_);
}

// First those that no request is in. Then the session that holds most gives way: its client says
// hello anew, and sends again what has not been answered.
void Sessions::let_bodies_go() {
  for (const auto& peer : peers_) {
    if (peer && peer->held_bytes > 0) held_bytes_ -= peer->let_go();
  }
  while (held_bytes_ > limits_.request_bytes) {
    const auto held = [](const auto& peer) { return peer ? peer->held_bytes : 0; };
    const auto most = std::ranges::max_element(peers_, {}, held);
    refusals_.count(Limit::request_bytes);
    end(static_cast<size_t>(most - peers_.begin()));
  }
}

void Sessions::admit(size_t index, uint16_t listener, const Hello& hello, const Endpoint& from) {
  auto peer = std::make_unique<Peer>(hello);
  const auto random_bits = static_cast<uint32_t>(random_.bits()) << kIndexBits;
  peer->connection = random_bits | static_cast<uint32_t>(index);
  if (peer->connection == 0) peer->connection = 1u << kIndexBits;
  peer->listener = listener;
  peer->frames_apart = (hello.capabilities & kFramesApart) != 0;
  peer->endpoint = from;
  ++peer_count_;
  ++half_open_count_;
  ++peers_on_[listener];
  share_credit(listener);
  half_open_.push_back(peer->connection);
  opening_[opening_key(hello.client, hello.nonce)] = index;
  peers_[index] = std::move(peer);
}

// The name itself, or the first of name~2, name~3, ... that no other client has.
// One pass over the others: a thousand actors of one name may join at once.
std::string Sessions::distinct(const std::string& name) const {
  std::vector<bool> taken(kMaxPeers + 2);  // by number; 1: the name alone
  for (const auto& peer : peers_) {
    if (!peer || !peer->proved || !peer->name.starts_with(name)) continue;
    const std::string rest = peer->name.substr(name.size());
    size_t number = rest.empty() ? 1 : 0;
    if (rest.starts_with("~")) std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
    if (number > 1 && rest != "~" + std::to_string(number)) continue;
    if (number < taken.size()) taken[number] = true;
  }
  size_t number = 1;
  while (taken[number]) ++number;
  return number == 1 ? name : name + "~" + std::to_string(number);
}

void Sessions::end(size_t index) {
  Peer& peer = *peers_[index];
  if (peer.proved) {
    handler_.ended(peer);
  } else {
    forget_opening(peer);
  }
  for (size_t i = 0; i < kLanes; ++i) {
    if (const Slot* slot = peer.lanes[i].waiting()) end_wait(peer, static_cast<Lane>(i), *slot);
  }
  logs_[peer.listener]->of_ended.add(peer.traffic);
  held_bytes_ -= peer.held_bytes;
  --peer_count_;
  --peers_on_[peers_[index]->listener];
  share_credit(peers_[index]->listener);
  // Frames name sessions by connection number, so none of them dangles; acks name slots and go
  // first.
  std::erase_if(acks_, [&](const auto& ack) { return ack.first == peer.connection; });
  for (auto& level : turns_) std::erase(level, peer.connection);
  if (const auto known = indices_.find(peer.client);
      known != indices_.end() && known->second == index) {
    indices_.erase(known);
  }
  if (peer.sealing) {
    doorkeeper_->forget(peer.ephemeral);
    outboxes_[peer.listener].seal_filled();
  }
  peers_[index].reset();
  ran_ = true;  // what it held up may go on
}

void Sessions::stood_still(uint64_t ns, uint64_t now) {
  for (const auto& peer : peers_) {
    if (peer) peer->last_heard_ns = std::min(peer->last_heard_ns + ns, now);
  }
}

void Sessions::expire(uint64_t now) {
  if (doorkeeper_) heed_new_keys();
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i]) continue;
    Peer& peer = *peers_[i];
    if (now > peer.last_heard_ns + kSilenceNs) {
      end(i);
    } else if (peer.held_bytes > 0 && now > peer.held_at_ns + kIdleBodiesNs) {
      held_bytes_ -= peer.let_go();
      peer.held_at_ns = now;
    }
  }
}

}  // namespace drlnet
