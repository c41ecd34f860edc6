#include "session/server/sessions.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/world.h"
#include "session/flow.h"

namespace drlnet {

namespace {

// By memcpy, which is faster than the standard library's copy of std::byte, and is asked for no
// null pointer.
void copy_body(std::span<const std::byte> payload, Slot& slot, uint32_t offset) {
  if (!payload.empty()) std::memcpy(slot.body.data() + offset, payload.data(), payload.size());
}

}  // namespace

Sessions::Sessions(RequestHandler& handler, ServerIdentity identity, uint32_t shard,
                   uint32_t shards)
    : handler_(handler),
      identity_(identity),
      shard_(shard),
      shards_(shards),
      random_(random_secret()) {
  peers_.resize(kMaxPeers);
  acks_.reserve(256);
  held_answers_.reserve(kMaxPeers);
  for (auto& level : turns_) level.reserve(kMaxPeers);
}

void Sessions::add_listener(std::unique_ptr<Transport> transport) {
  outboxes_.emplace_back(*transport);
  checked_.push_back(transport->may_alter_bytes());
  keyed_.push_back(doorkeeper_ != nullptr && transport->may_alter_bytes());
  transports_.push_back(std::move(transport));
  peers_on_.push_back(0);
  credits_.push_back(0);
  logs_.push_back(std::make_unique<ListenerLog>());
  share_credit(static_cast<uint16_t>(peers_on_.size() - 1));
}

bool Sessions::poll() {
  uint64_t started = 0;  // once frames have come
  begin_turn();
  for (uint16_t i = 0; i < transports_.size(); ++i) {
    const auto frames = transports_[i]->recv_burst();
    if (frames.empty()) continue;
    prefetch(frames);
    const uint64_t now = clock_ns_ = now_ns();
    if (started == 0) started = now;
    share_among(i, frames);
    for (const RxFrame& frame : frames) on_frame(i, frame, now);
    // Small replies wait for nothing else: another listener, a turn to be gathered, a clock.
    outboxes_[i].flush();
    note_ran();
  }
  // The sooner an idle round ends, the sooner the next frame is found.
  if (started == 0 && idle_ && !ran_) return false;
  if (std::exchange(ran_, false)) {
    note_ran();
    if (waiting_ > 0) handler_.retry_waiting();
  }
  send_acks();
  for (Outbox& outbox : outboxes_) outbox.flush();
  note_ran();
  const bool turned = serve_turn();
  answer_held(turned);
  if (turned && !backlog_.empty()) {  // its requests may change, or free, what that turn has lent
    for (Outbox& outbox : outboxes_) outbox.flush();
  }
  const bool late = run_backlog();
  const bool busy = turned || late || ran_ || started != 0;
  for (Outbox& outbox : outboxes_) outbox.flush();
  if (held_bytes_ > limits_.request_bytes) let_bodies_go();
  note_round(busy, started);
  idle_ = !busy && !pulls_ && !output_blocked();
  return busy;
}

bool Sessions::output_blocked() const {
  return std::any_of(outboxes_.begin(), outboxes_.end(),
                     [](const Outbox& outbox) { return outbox.blocked(); });
}

void Sessions::on_frame(uint16_t listener, const RxFrame& frame, uint64_t now) {
  if (keyed_[listener]) return on_keyed_frame(listener, frame, now);
  FrameHeader header;
  if (const auto reason = parse_frame(frame.data, header)) return drop(*reason);
  // Another version may have no checksums: it is told which one this is.
  if (checked_[listener] && !intact(frame.data) &&
      (header.version == kVersion || sealed(frame.data))) {
    return drop(Drop::checksum);
  }
  if (header.kind == FrameKind::hello) return on_hello(listener, frame, header, now);
  if (header.kind == FrameKind::keyed_hello) {
    if (!heed_stranger()) return;
    return refuse(listener, frame.from, header.request, Status::forbidden,
                  "the server has no keys, and would not seal the session",
                  "start it with `drlnet serve --key FILE`, or leave out the client's key");
  }
  Peer* peer = peer_of(listener, frame, header);
  if (peer == nullptr) return;
  if (!peer->proved && !prove(*peer, header)) return;
  on_session_frame(*peer, header, frame.data, now);
}

// The session that a frame names and comes from; null where there is none, which its client is
// told.
Peer* Sessions::peer_of(uint16_t listener, const RxFrame& frame, const FrameHeader& header) {
  Peer* peer = find(header.connection);
  if (peer != nullptr && peer->listener == listener && peer->endpoint == frame.from) return peer;
  drop(Drop::session);
  const bool asks = header.kind == FrameKind::request || header.kind == FrameKind::pull;
  if (asks && heed_stranger()) {
    FrameHeader reset;
    reset.kind = FrameKind::reset;
    reset.connection = header.connection;
    send_stateless(listener, frame.from, reset, {}, kHeaderBytes);
  }
  return nullptr;
}

void Sessions::on_session_frame(Peer& peer, const FrameHeader& header,
                                std::span<const std::byte> frame, uint64_t now) {
  peer.last_heard_ns = now;
  peer.traffic.received(frame.size());
  switch (header.kind) {
    case FrameKind::request:
      return on_request(peer, header, frame_payload(frame), now);
    case FrameKind::pull:
      return on_pull(peer, header);
    case FrameKind::bye:
      return end(index_of(header.connection));
    default:
      return drop(Drop::kind);  // kinds that only a server sends
  }
}

void Sessions::on_request(Peer& peer, const FrameHeader& header, std::span<const std::byte> payload,
                          uint64_t now) {
  const auto frame_bytes =
      static_cast<uint16_t>(std::min<size_t>(header.frame_bytes, kMaxFrameBytes) & ~size_t{7});
  if (frame_bytes != peer.frame_bytes) {  // what it says: a device's buffers may hold less
    peer.frame_bytes = static_cast<uint16_t>(
        std::min<size_t>(frame_bytes, transports_[peer.listener]->mtu(peer.endpoint)));
  }
  LaneState& lane = peer.lane(header.lane);
  Slot& slot = lane.slot(header.request);
  if (header.request >= lane.next + lane.slots.size() || header.request < slot.request ||
      header.request == 0) {
    return drop(header.request < slot.request ? Drop::late : Drop::request);
  }
  if (header.request > slot.request) {  // the slot's former request is answered and done with
    if (slot.state != Slot::State::empty && slot.state != Slot::State::answered) {
      return drop(Drop::request);
    }
    if (header.request < lane.next) return drop(Drop::late);
    if (header.total_bytes > slot.body.size()) return drop(Drop::length);
    slot.state = Slot::State::receiving;
    slot.request = header.request;
    slot.operation = header.operation;
    slot.total_bytes = header.total_bytes;
    slot.eager_bytes = header.credit;
    slot.arrived_ns = now;
    slot.fragments.begin(header.total_bytes, peer.frame_bytes - kHeaderBytes);
  }
  switch (slot.state) {
    case Slot::State::receiving:
      return on_fragment(peer, slot, header, payload);
    case Slot::State::answered:
      // The client asks again: the answer was lost, or is late, which the client counts.
      if (!has_share(peer)) {
        ++put_off_;
        return;
      }
      charge_answer(peer, slot);
      return answer(peer, header.lane, slot);
    default:  // in hand already: say so
      ++peer.duplicates;
      if (!slot.ack_due) acks_.emplace_back(peer.connection, &slot);
      slot.ack_due = true;
  }
}

void Sessions::on_fragment(Peer& peer, Slot& slot, const FrameHeader& header,
                           std::span<const std::byte> payload) {
  if (header.total_bytes != slot.total_bytes || header.operation != slot.operation ||
      !slot.fragments.fits(header.offset, header.length)) {
    return drop(Drop::length);
  }
  LaneState& lane = peer.lane(header.lane);
  const bool whole = slot.fragments.count() == 1;
  if (!slot.fragments.add(header.offset)) {
    ++peer.duplicates;
  } else if (whole && slot.request == lane.next &&
             reinterpret_cast<uintptr_t>(payload.data()) % 8 == 0 && has_share(peer)) {
    // The common case: run it where it lies. Only a request that waits is copied.
    slot.state = Slot::State::ready;
    if (!run_slot(peer, header.lane, slot, payload)) {
      hold(peer, slot, header.total_bytes);
      copy_body(payload, slot, 0);
    }
    return run_lane(peer, header.lane);
  } else {
    hold(peer, slot, header.total_bytes);
    copy_body(payload, slot, header.offset);
  }
  if (slot.fragments.complete()) {
    slot.state = Slot::State::ready;
    run_lane(peer, header.lane);
    if (lane.backlogged) return;  // the answer comes soon
  }
  if (slot.state != Slot::State::answered && slot.state != Slot::State::waiting) {
    if (!slot.ack_due) acks_.emplace_back(peer.connection, &slot);
    slot.ack_due = true;
  }
}

void Sessions::run_lane(Peer& peer, Lane which) {
  LaneState& lane = peer.lane(which);
  for (;;) {
    Slot& slot = lane.slot(lane.next);
    if (slot.request != lane.next) return;
    if (slot.state == Slot::State::answered) {  // in a session that this one carries on
      ++lane.next;
      continue;
    }
    if (slot.state != Slot::State::ready) return;
    if (!has_share(peer)) return put_off(peer, which);
    if (!run_slot(peer, which, slot, slot.body.first(slot.total_bytes))) return;
  }
}

bool Sessions::run_slot(Peer& peer, Lane which, Slot& slot, std::span<const std::byte> body) {
  note_ran();
  const uint64_t start = clock_ns_;
  slot.status = Status::ok;
  slot.use_source = false;
  slot.bytes.clear();
  slot.work = 0;
  const bool waited = slot.state == Slot::State::waiting;
  const bool may = peer.role >= role_for(slot.operation);
  if (const uint16_t wait = may ? handler_.handle(peer, slot, body) : refuse_rights(peer, slot)) {
    const bool news = !waited || wait != slot.wait;
    slot.state = Slot::State::waiting;
    if (news) {
      if (waited) end_wait(peer, which, slot);
      begin_wait(peer, which, slot, wait);
      FrameHeader header = header_for(peer, FrameKind::pending, which, slot);
      header.status = wait;
      send(peer, header, {});
    }
    return false;
  }
  if (waited) end_wait(peer, which, slot);
  slot.state = Slot::State::answered;
  peer.lane(which).next = slot.request + 1;
  ran_ = true;
  charge(peer, slot);
  if (!hold_answer(peer, which, slot)) answer(peer, which, slot);
  last_ran_ = {logs_[peer.listener].get(), slot.operation, start, slot.arrived_ns};
  return true;
}

void Sessions::answer(Peer& peer, Lane which, Slot& slot) {
  const uint32_t total = slot.reply_bytes();
  const uint32_t room = peer.frame_bytes - kHeaderBytes;
  FrameHeader header = header_for(peer, FrameKind::response, which, slot);
  header.total_bytes = total;
  if (!slot.use_source && total <= room) {
    header.length = total;
    return send(peer, header, slot.bytes);
  }
  // At least the first frame goes unasked: it tells the client how much there is to pull.
  Pull pull{which, slot.request, 0, std::min(total, std::max(slot.eager_bytes, room))};
  uint32_t budget = room;
  Outbox& outbox = outboxes_[peer.listener];
  const bool at_once = total <= room && outbox.transport().bursts_are_cheap();
  if (!at_once || !serve_pull(peer, pull, budget)) {
    queue_pull(peer, pull);
  } else {
    outbox.flush();  // the next request may change what a sealed frame was lent
  }
}

void Sessions::run_waiting(uint32_t connection, Lane which) {
  Peer* peer = find(connection);
  DRLNET_ASSERT(peer != nullptr);
  Slot* slot = peer->lane(which).waiting();
  DRLNET_ASSERT(slot != nullptr);
  note_ran();
  clock_ns_ = now_ns();  // it does not begin where the last one ended
  const bool ran = run_slot(*peer, which, *slot, slot->body.first(slot->total_bytes));
  if (ran) run_lane(*peer, which);
}

void Sessions::send_acks() {
  for (const auto& [connection, slot] : acks_) {
    Peer* peer = find(connection);
    if (peer == nullptr) continue;
    slot->ack_due = false;
    const Lane lane = lane_of(slot->operation);
    if (slot->state == Slot::State::waiting) {
      FrameHeader header = header_for(*peer, FrameKind::pending, lane, *slot);
      header.status = slot->wait;
      send(*peer, header, {});
    } else if (slot->state != Slot::State::answered) {
      std::array<uint64_t, kMaxRequestFragments / 64> bitmap;
      for (size_t i = 0; i < bitmap.size(); ++i) bitmap[i] = slot->fragments.word(i);
      FrameHeader header = header_for(*peer, FrameKind::ack, lane, *slot);
      header.length = sizeof bitmap;
      header.total_bytes = slot->total_bytes;
      send(*peer, header, std::as_bytes(std::span(bitmap)));
    }
  }
  acks_.clear();
}

FrameHeader Sessions::header_for(Peer& peer, FrameKind kind, Lane lane, const Slot& slot) const {
  FrameHeader header;
  header.kind = kind;
  header.connection = peer.connection;
  header.packet_number = ++peer.packet_number;
  header.lane = lane;
  header.operation = slot.operation;
  header.status = static_cast<uint16_t>(slot.status);
  header.frame_bytes = peer.frame_bytes;
  header.request = slot.request;
  header.credit = credits_[peer.listener];
  return header;
}

// Ahead of need: every frame to a client names its credit, and a listener may have to ask the
// kernel for its capacity.
void Sessions::share_credit(uint16_t listener) {
  const size_t share =
      transports_[listener]->receive_capacity_bytes() / std::max(1u, peers_on_[listener]);
  credits_[listener] =
      static_cast<uint32_t>(std::clamp<size_t>(share, kMinCreditBytes, kMaxCreditBytes));
}

void Sessions::send(Peer& peer, const FrameHeader& header, std::span<const std::byte> payload) {
  TxFrame* frame =
      outboxes_[peer.listener].next(peer.endpoint, peer.frames_apart, peer.sealing.get());
  if (frame == nullptr) return;  // the device is full: the client asks again
  write_header(frame->data, header);
  if (!payload.empty()) std::memcpy(frame->data + kHeaderBytes, payload.data(), payload.size());
  frame->length = static_cast<uint32_t>(kHeaderBytes + payload.size());
  peer.traffic.sent(frame->length);
}

void Sessions::send_stateless(uint16_t listener, const Endpoint& to, FrameHeader header,
                              std::span<const std::byte> payload, size_t frame_bytes) {
  // Apart: any client takes it then; and a welcome probes its own frame size.
  TxFrame* frame = outboxes_[listener].next(to, true);
  if (frame == nullptr) return;
  header.frame_bytes = kMinFrameBytes;
  write_header(frame->data, header);
  if (!payload.empty()) std::memcpy(frame->data + kHeaderBytes, payload.data(), payload.size());
  const size_t filled = kHeaderBytes + payload.size();
  if (frame_bytes > filled) std::memset(frame->data + filled, 0, frame_bytes - filled);
  frame->length = static_cast<uint32_t>(std::max(frame_bytes, filled));
}

Peer* Sessions::find(uint32_t connection) {
  const uint32_t index = index_of(connection);
  if (index >= peers_.size() || !peers_[index]) return nullptr;
  return peers_[index]->connection == connection ? peers_[index].get() : nullptr;
}

std::vector<Peer*> Sessions::peers() {
  std::vector<Peer*> result;
  for (const auto& peer : peers_) {
    if (peer) result.push_back(peer.get());
  }
  return result;
}

}  // namespace drlnet
