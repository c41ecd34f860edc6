// Bulk replies: sent in turns of kTurnBytes between peers, so that a 25 MB reply never holds up
// another client's small one; and appends, whose answers wait meanwhile.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/world.h"
#include "session/server/sessions.h"

namespace drlnet {

// Whether the answer waits for answer_held(). An append that is answered at once is followed by the
// next at once: clients at full rate would take all of this thread that they can get, and of the
// cores that they share with the client that waits for the reply that goes out.
bool Sessions::hold_answer(Peer& peer, Lane which, const Slot& slot) {
  if (which != Lane::append) return false;
  const bool rested = !pulls_ || clock_ns_ - peer.append_answered_ns >= kAppendPauseNs;
  if (rested && peer.first_held == 0) {
    peer.append_answered_ns = clock_ns_;
    return false;
  }
  if (peer.first_held == 0) {
    peer.first_held = slot.request;
    held_answers_.push_back(peer.connection);
  }
  return true;
}

// All together: a process that shares a core is then woken once. turned: a reply is still going
// out; else no client waits for us, or the device takes no more: then they are kept until it does.
void Sessions::answer_held(bool turned) {
  if (held_answers_.empty()) return;
  const uint64_t now = now_ns();
  const Peer* first = find(held_answers_.front());
  if (turned && first != nullptr && now - first->append_answered_ns < kAppendPauseNs) return;
  std::erase_if(held_answers_, [&](uint32_t connection) {
    Peer* peer = find(connection);
    if (peer == nullptr) return true;
    if (!outboxes_[peer->listener].flush()) return false;
    peer->append_answered_ns = now;
    LaneState& lane = peer->lane(Lane::append);
    for (uint64_t request = std::exchange(peer->first_held, 0); request < lane.next; ++request) {
      Slot& slot = lane.slot(request);
      if (slot.request == request) answer(*peer, Lane::append, slot);
    }
    return true;
  });
}

void Sessions::on_pull(Peer& peer, const FrameHeader& header) {
  Slot& slot = peer.lane(header.lane).slot(header.request);
  if (slot.request != header.request || slot.state != Slot::State::answered) {
    return drop(Drop::late);
  }
  const uint32_t total = slot.reply_bytes();
  const uint32_t room = peer.frame_bytes - kHeaderBytes;
  Pull pull{header.lane, header.request, 0, total};  // of a refusal all is sent
  if (slot.status == Status::ok) {
    if (header.offset >= total || header.offset % room != 0) return drop(Drop::length);
    pull.offset = header.offset;
    pull.end = header.offset + std::min(header.length, total - header.offset);
  }
  if (!queue_pull(peer, pull)) drop(Drop::request);
}

// False where the session has too many already.
bool Sessions::queue_pull(Peer& peer, const Pull& pull) {
  const size_t level = pull.lane == Lane::sample ? 0 : 1;
  const bool first = peer.pulls[level].empty();
  if (!peer.pulls[level].push(pull)) return false;
  if (first) turns_[level].push_back(peer.connection);
  return pulls_ = true;
}

// One turn for one peer; peers take turns, samples go before params but for every eighth turn. Of
// one pull: a client that asks for little at a time has few buffers, and puts it in place while the
// next part is gathered. All that he asked for in one turn would let the two wait for each other.
bool Sessions::serve_turn() {
  if (!pulls_) return false;  // the usual case of an idle round, however many clients there are
  const size_t favoured = ++turn_count_ % 8 == 0 ? 1 : 0;
  for (const size_t level : {favoured, 1 - favoured}) {
    std::vector<uint32_t>& turns = turns_[level];
    if (turns.empty()) continue;
    std::ranges::rotate(turns, turns.begin() + 1);
    Peer* peer = find(turns.back());
    DRLNET_ASSERT(peer != nullptr);
    PullQueue& pulls = peer->pulls[level];
    uint32_t budget = kTurnBytes;
    if (!serve_pull(*peer, pulls.front(), budget)) return false;  // the device is full
    if (pulls.front().offset >= pulls.front().end) pulls.pop();
    if (pulls.empty()) turns.pop_back();
    return true;
  }
  pulls_ = false;
  return false;
}

bool Sessions::serve_pull(Peer& peer, Pull& pull, uint32_t& budget) {
  Slot& slot = peer.lane(pull.lane).slot(pull.request);
  if (slot.request != pull.request) {  // the client is done with it
    pull.offset = pull.end;
    return true;
  }
  const uint32_t room = peer.frame_bytes - kHeaderBytes;
  const uint32_t total = slot.reply_bytes();
  if (pull.end > total) {  // the reply has become a refusal since, which is sent instead
    pull.offset = 0;
    pull.end = total;
  }
  Outbox& outbox = outboxes_[peer.listener];
  const bool cheap = outbox.transport().bursts_are_cheap();
  while (pull.offset < pull.end && budget > 0) {
    // The client puts the first frames in place while the others are gathered.
    const bool prompt = cheap && pull.offset < kTurnBytes && peer.sealing == nullptr;
    const uint32_t length = std::min(room, total - pull.offset);
    TxFrame* frame =
        prompt ? outbox.next_at_receiver(peer.endpoint, peer.frames_apart, kHeaderBytes + length)
               : outbox.next(peer.endpoint, peer.frames_apart, peer.sealing.get());
    if (frame == nullptr) return false;
    FrameHeader header = header_for(peer, FrameKind::response, pull.lane, slot);
    header.total_bytes = total;
    header.offset = pull.offset;
    header.length = length;
    const std::span<std::byte> out(frame->data + kHeaderBytes, length);
    if (!slot.use_source) {
      frame->loans.put(out.data(), slot.bytes.data() + pull.offset, length);
    } else if (!slot.source->gather(pull.offset, out, frame->loans)) {
      frame->loans.clear();
      ++expired_pulls_;
      header.status = static_cast<uint16_t>(Status::sample_expired);
      header.total_bytes = header.offset = header.length = 0;
      pull.offset = pull.end;
    }
    write_header(frame->data, header);
    frame->length = kHeaderBytes + header.length;
    peer.traffic.sent(frame->length);
    pull.offset += std::min(length, pull.end - pull.offset);
    budget -= std::min(budget, length);
    if (prompt) outbox.flush();
  }
  return true;
}

}  // namespace drlnet
