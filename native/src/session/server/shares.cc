// How sessions share the thread: in turns, by work that is counted (deficit round robin, Shreedhar
// and Varghese 1995). A request that is beyond its session's share stays in its slot; what no slot
// has room for is dropped, as cheaply as any frame, and its client sends it again.
#include <algorithm>

#include "base/world.h"
#include "session/server/sessions.h"

namespace drlnet {

void Sessions::begin_turn() {
  if (!contended_) alone_turn_ = turn_;
  ++turn_;
  strangers_ = 0;
  heard_ = false;
  if (doorkeeper_) doorkeeper_->begin_turn();
  contended_ = std::ranges::any_of(
      backlog_, [&](const auto& lane) { return lane.first != backlog_.front().first; });
}

// With that burst in hand, before any of its frames is.
void Sessions::share_among(uint16_t listener, std::span<const RxFrame> frames) {
  const Endpoint& first = frames.front().from;
  const auto other = [&](const RxFrame& frame) { return !(frame.from == first); };
  contended_ |= heard_ || other(frames.back()) || std::ranges::any_of(frames, other);
  heard_ = true;
  if (contended_ || backlog_.empty()) return;
  const Peer* waiting = find(backlog_.front().first);
  contended_ = waiting != nullptr && (waiting->listener != listener || waiting->endpoint != first);
}

// Whether one more of its requests may run in this turn. What a session took beyond its share it
// owes, but for what no other one has waited for.
bool Sessions::has_share(Peer& peer) {
  if (peer.turn != turn_) {
    const uint64_t paid = kShare * (turn_ - peer.turn);
    peer.work =
        peer.turn <= alone_turn_ || paid >= peer.work ? 0 : peer.work - static_cast<uint32_t>(paid);
    peer.turn = turn_;
  }
  return peer.work < (contended_ ? kShare : kShareAlone);
}

// With a request that has run.
void Sessions::charge(Peer& peer, const Slot& slot) {
  peer.work += slot.work + static_cast<uint32_t>(slot.total_bytes / kUnitBytes);
  charge_answer(peer, slot);
}

void Sessions::charge_answer(Peer& peer, const Slot& slot) {
  // A source's parts are sent in turns of their own (serve_turn()).
  const size_t bytes = slot.use_source ? 0 : slot.bytes.size();
  peer.work += 1 + static_cast<uint32_t>(bytes / kUnitBytes);
}

void Sessions::put_off(Peer& peer, Lane which) {
  LaneState& lane = peer.lane(which);
  if (lane.backlogged) return;
  lane.backlogged = true;
  ++put_off_;
  backlog_.emplace_back(peer.connection, which);
}

// Each lane once: what is left of its session's share in this turn. False where none waits.
bool Sessions::run_backlog() {
  if (backlog_.empty()) return false;
  for (size_t left = backlog_.size(); left > 0; --left) {
    const auto lane = backlog_.front();
    backlog_.pop_front();
    Peer* peer = find(lane.first);
    if (peer == nullptr) continue;
    if (!has_share(*peer)) {
      backlog_.push_back(lane);
      continue;
    }
    note_ran();
    clock_ns_ = now_ns();
    peer->lane(lane.second).backlogged = false;
    run_lane(*peer, lane.second);
  }
  note_ran();
  return true;
}

// Whether a frame that names no session is answered. Most of a flood of them is not.
bool Sessions::heed_stranger(uint32_t work) {
  if (strangers_ >= kShare) {
    ++strangers_dropped_;
    return false;
  }
  strangers_ += work;
  return true;
}

}  // namespace drlnet
