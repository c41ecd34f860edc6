// The client's side of a session: what is asked for again before a timeout. A part of a request
// has come when the server acknowledges it, a part of a reply when it is here; whatever was sent
// before it in the same lane is then overtaken. Where nothing follows that could overtake, a probe
// asks how things stand.
#include <algorithm>

#include "session/client/connection.h"

namespace drlnet {
namespace {

constexpr uint32_t kMostProbes = 2;
constexpr uint64_t kMinProbeNs = 1'000'000;
constexpr uint64_t kMinPatienceNs = 50'000;

// Where a fragment stands among all that was sent or asked for.
constexpr uint64_t position_of(uint64_t order, uint32_t index) { return order << 24 | index; }

}  // namespace

// The oldest request under way in the lane: the others' answers come after its.
Call* Connection::head(LaneCalls& lane) {
  if (lane.active == 0) return nullptr;
  const uint32_t older = lane.active & (~0u << lane.place(lane.next));
  return &lane.calls[static_cast<size_t>(std::countr_zero(older != 0 ? older : lane.active))];
}

// Whether it is asked for soon when nothing is heard of it: a few times, and of a lane the one
// whose answer is due, and those whose answer is lost.
bool Connection::may_probe(const Call& call) const {
  if (call.probes >= kMostProbes || call.state == Call::State::pending) return false;
  const auto lane = static_cast<size_t>(lane_of(call.operation));
  return answers_[lane].lost(call.request) || &call == head(lanes_[lane]);
}

// When nothing has been heard of the call for that long, it is asked for.
uint64_t Connection::patience_with(const Call& call) const {
  if (!may_probe(call)) return timeout_of(call);
  const auto usual = static_cast<uint64_t>(2 * smoothed_ns_ + 4 * variance_ns_);
  return std::min(std::max(usual, kMinProbeNs), timeout_of(call));
}

// Whether what comes now may answer what was sent then: else it answers an earlier sending.
bool Connection::may_answer(uint64_t sent_ns, uint64_t now) const {
  return now >= sent_ns + static_cast<uint64_t>(smoothed_ns_ / 2);
}

// All parts of a request, or one of them, have come.
void Connection::note_arrived(const Call& call, uint32_t first, uint32_t end, uint64_t now) {
  if (call.repeated && !may_answer(call.last_sent_ns, now)) return;
  Overtaking& lane = requests_[static_cast<size_t>(lane_of(call.operation))];
  for (uint32_t i = first; i < end; ++i) lane.came(call.orders[i]);
}

void Connection::note_received(Call& call, uint32_t index, uint64_t now) {
  for (auto ask = call.asks.rbegin(); ask != call.asks.rend(); ++ask) {
    if (index < ask->first || index >= ask->end || !may_answer(ask->sent_ns, now)) continue;
    return replies_of(call).came(position_of(ask->order, index));
  }
}

Overtaking& Connection::replies_of(const Call& call) {
  return replies_[lane_of(call.operation) == Lane::sample ? 0 : 1];
}

// Sends again what is lost of the call, and says in next_deadline_ when more may be.
void Connection::recover(Call& call, uint64_t now) {
  if (call.state == Call::State::receiving) return recover_reply(call, now);
  if (call.state != Call::State::sending && call.state != Call::State::accepted) return;
  const auto in = static_cast<size_t>(lane_of(call.operation));
  if (answers_[in].overtaken(call.request) || answers_[in].lost(call.request)) {
    // A later one has been answered: the server has it all, and it is the answer that is missing.
    if (!answers_[in].lost(call.request)) {
      next_deadline_ = std::min(next_deadline_, answers_[in].decided_ns());
    } else if (call.probes == 0) {
      probe(call, now);
    }
    return;
  }
  if (call.state == Call::State::accepted) return;
  const Overtaking& lane = requests_[static_cast<size_t>(lane_of(call.operation))];
  for (uint32_t i = 0; i < call.next_fragment; ++i) {
    if (call.sent.has(i)) continue;
    if (lane.lost(call.orders[i])) {
      if (!send_fragment(call, i, now)) return;
      ++retransmissions_;
      note_repeat(call, now);
      call.retry_at_ns = now + patience_with(call);
    } else if (lane.overtaken(call.orders[i])) {
      next_deadline_ = std::min(next_deadline_, lane.decided_ns());
    }
  }
}

void Connection::recover_reply(Call& call, uint64_t now) {
  const Overtaking& replies = replies_of(call);
  for (size_t i = 0; i < call.asks.size();) {
    Call::Ask ask = call.asks[i];  // pulls add to them
    const auto step = [&] {
      while (ask.first < ask.end && call.received.has(ask.first)) ++ask.first;
      return ask.first < ask.end;
    };
    while (step() && replies.lost(position_of(ask.order, ask.first))) {
      const uint32_t first = ask.first;
      uint32_t end = first;
      while (end < ask.end && !call.received.has(end) &&
             replies.lost(position_of(ask.order, end))) {
        ++end;
      }
      if (!send_pull(call, first, end, now)) break;
      ++repulls_;
      repeated_ns_[static_cast<size_t>(lane_of(call.operation))] = now;
      call.retry_at_ns = now + patience_with(call);
      ask.first = end;
    }
    if (ask.first == ask.end) {
      call.asks.erase(call.asks.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (replies.overtaken(position_of(ask.order, ask.first))) {
      next_deadline_ = std::min(next_deadline_, replies.decided_ns());
    }
    call.asks[i++].first = ask.first;
  }
}

// Nothing follows that could overtake what is missing: its last part is asked for once more, and
// overtakes the others if they are lost. False where there is nothing to ask for.
bool Connection::probe(Call& call, uint64_t now) {
  if (!may_probe(call)) return false;
  ++call.probes;
  ++probes_;
  call.repeated = true;
  repeated_ns_[static_cast<size_t>(lane_of(call.operation))] = now;
  if (call.state == Call::State::receiving) {
    const uint32_t fragment = static_cast<uint32_t>(frame_bytes_) - kHeaderBytes;
    uint32_t last = (call.asked + fragment - 1) / fragment;
    while (last > 0 && call.received.has(last - 1)) --last;
    if (last > 0 && send_pull(call, last - 1, last, now)) ++repulls_;
  } else {
    uint32_t last = call.next_fragment;
    while (last > 1 && call.sent.has(last - 1)) --last;
    if (last > 0 && send_fragment(call, last - 1, now)) ++retransmissions_;
  }
  call.retry_at_ns = now + patience_with(call);
  return true;
}

// The window shrinks once in a round trip, however much was lost, and by little: what bounds
// requests in flight is the server's credit, so that few losses are a sign of a full buffer.
void Connection::note_repeat(Call& call, uint64_t now) {
  call.repeated = true;
  repeated_ns_[static_cast<size_t>(lane_of(call.operation))] = now;
  if (now < shrink_again_ns_) return;
  window_ = std::max(window_ - window_ / 8, least_window());
  shrink_again_ns_ = now + static_cast<uint64_t>(smoothed_ns_);
}

// So that a part which is lost has some behind it that overtake it.
uint32_t Connection::least_window() const {
  return std::max(kMinCreditBytes, 4 * static_cast<uint32_t>(frame_bytes_));
}

void Connection::look_for_losses(uint64_t now) {
  const auto reordering = std::max(static_cast<uint64_t>(smoothed_ns_ / 4), kMinPatienceNs);
  for (Overtaking& lane : requests_) lane.look(now, reordering);
  for (Overtaking& lane : answers_) lane.look(now, reordering);
  for (Overtaking& replies : replies_) replies.look(now, reordering);
}

}  // namespace drlnet
