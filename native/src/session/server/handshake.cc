// How sessions begin and end on the server's side.
#include <algorithm>
#include <charconv>

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
  if (!peers_[index]) {
    make_room();
    admit(index, listener, hello, frame.from);
  }
  Peer& peer = *peers_[index];
  peer.last_heard_ns = now;
  Welcome welcome;
  welcome.lineage = identity_.lineage;
  welcome.incarnation = identity_.incarnation;
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
  if (const auto known = indices_.find(hello.client); known != indices_.end()) {
    const size_t index = known->second;
    if (peers_[index]->nonce == hello.nonce && peers_[index]->endpoint == from) return index;
    end(index);  // it comes back before its former session went silent
  }
  const auto free = [](const auto& peer) { return peer == nullptr; };
  return static_cast<size_t>(std::ranges::find_if(peers_, free) - peers_.begin());
}

// Any address may say hello, in any number: what they leave behind is bounded. A client that loses
// its session so says hello anew with its next request.
void Sessions::make_room() {
  const auto proved = [&](uint32_t connection) {
    const Peer* peer = find(connection);
    return peer == nullptr || peer->proved;
  };
  while (!half_open_.empty() && proved(half_open_.front())) half_open_.pop_front();
  if (half_open_.size() >= kMaxHalfOpen) std::erase_if(half_open_, proved);
  if (half_open_.size() < kMaxHalfOpen) return;
  end(index_of(half_open_.front()));
  half_open_.pop_front();
  ++half_open_ended_;
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
  half_open_.push_back(peer->connection);
  indices_[hello.client] = index;
  peers_[index] = std::move(peer);
}

// The name itself, or the first of name~2, name~3, ... that no other client has.
// One pass over the others: a thousand actors of one name may join at once.
std::string Sessions::distinct(const std::string& name) const {
  std::vector<bool> taken(kMaxPeers + 2);  // by number; 1: the name alone
  for (const auto& peer : peers_) {
    if (!peer || !peer->name.starts_with(name)) continue;
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
  handler_.ended(peer);
  for (size_t i = 0; i < kLanes; ++i) {
    if (const Slot* slot = peer.lanes[i].waiting()) end_wait(peer, static_cast<Lane>(i), *slot);
  }
  logs_[peer.listener]->of_ended.add(peer.traffic);
  --peers_on_[peers_[index]->listener];
  share_credit(peers_[index]->listener);
  // Frames name sessions by connection number, so none of them dangles; acks name slots and go
  // first.
  std::erase_if(acks_, [&](const auto& ack) { return ack.first == peer.connection; });
  for (auto& level : turns_) std::erase(level, peer.connection);
  indices_.erase(peer.client);
  peers_[index].reset();
  ran_ = true;  // what it held up may go on
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
