// The server's side of a session: one client, its lanes, and what it has asked for.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/loans.h"
#include "base/mapping.h"
#include "base/metrics.h"
#include "session/fragments.h"
#include "session/keys/sealing.h"
#include "session/traffic.h"
#include "spec/wait.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace drlnet {

// A reply too large to keep: any range of it can be written again for as long as its request is the
// slot's. One virtual call per frame.
class ReplySource {
 public:
  virtual ~ReplySource() = default;
  virtual uint32_t total_bytes() const = 0;
  // Writes bytes [offset, offset + out.size()) of the reply, but for those that it lends. False:
  // expired.
  virtual bool gather(uint64_t offset, std::span<std::byte> out, Loans& loans) const = 0;
};

struct alignas(64) Slot {
  enum class State : uint8_t { empty, receiving, ready, waiting, answered };
  State state = State::empty;
  Operation operation{};
  bool ack_due = false;
  uint16_t wait = 0;  // reason while waiting
  uint64_t request = 0;
  uint32_t total_bytes = 0;
  uint32_t eager_bytes = 0;
  uint64_t arrived_ns = 0;
  Fragments fragments;
  std::span<std::byte> body;  // room for the lane's largest request, once the session has proved
  uint32_t held_bytes = 0;    // of it that take memory
  uint32_t work = 0;          // of the handler, beyond its bytes (Sessions::kShare)
  // The reply: bytes, or a source when use_source is set. The source outlives its request, so that
  // the next one reuses its memory. A source's reply may become a refusal while it is sent.
  Status status = Status::ok;
  bool use_source = false;
  std::vector<std::byte> bytes;
  std::unique_ptr<ReplySource> source;

  uint32_t reply_bytes() const {
    return use_source ? source->total_bytes() : static_cast<uint32_t>(bytes.size());
  }
};

struct LaneState {
  uint64_t next = 1;  // the request to run next
  std::vector<Slot> slots;
  size_t window = 0;  // slots.size()
  // For waiting(): since when, and what counts it beside the peer (the handler says, or null).
  uint64_t waiting_since_ns = 0;
  WaitTimes* waits = nullptr;
  bool backlogged = false;  // its next request has come whole, and waits for a later turn
  Slot& slot(uint64_t request) { return slots[window_place(request, window)]; }
  // The request that holds up the lane, if one does.
  Slot* waiting() {
    Slot& head = slot(next);
    return head.request == next && head.state == Slot::State::waiting ? &head : nullptr;
  }
};

// A range of a reply that is still to be sent.
struct Pull {
  Lane lane{};
  uint64_t request = 0;
  uint32_t offset = 0, end = 0;
};

// Bounded queue of pulls; a full one drops the newcomer, which its client asks for again.
class PullQueue {
 public:
  bool push(const Pull& pull) {
    if (count_ == ring_.size()) return false;
    ring_[(head_ + count_++) % ring_.size()] = pull;
    return true;
  }
  Pull& front() { return ring_[head_]; }
  void pop() {
    head_ = (head_ + 1) % ring_.size();
    --count_;
  }
  bool empty() const { return count_ == 0; }
  uint64_t bytes() const {
    uint64_t total = 0;
    for (size_t i = 0; i < count_; ++i) {
      const Pull& pull = ring_[(head_ + i) % ring_.size()];
      total += pull.end - pull.offset;
    }
    return total;
  }

 private:
  std::array<Pull, 128> ring_;
  size_t head_ = 0, count_ = 0;
};

// What a client may still append: it fills with time, up to a second's. An append of
// more passes where that is full, and the next ones wait for what it owes.
class RowAllowance {
 public:
  bool take(uint64_t rows, uint64_t per_second, uint64_t now_ns) {
    const auto most = static_cast<double>(per_second);
    const double since_s =
        began_ ? static_cast<double>(now_ns - std::min(now_ns, at_ns_)) / 1e9 : 1;
    left_ = std::min(most, left_ + since_s * most);
    at_ns_ = now_ns;
    began_ = true;
    if (left_ < std::min(most, static_cast<double>(rows))) return false;
    left_ -= static_cast<double>(rows);
    return true;
  }

 private:
  bool began_ = false;
  uint64_t at_ns_ = 0;
  double left_ = 0;
};

struct Peer {
  uint32_t connection = 0;
  uint16_t listener = 0;
  uint16_t frame_bytes = kMinFrameBytes;
  bool frames_apart = false;  // the client takes no joined frames
  Endpoint endpoint;
  uint64_t client = 0, nonce = 0;
  std::string name;  // as people see it: "learner~2" where another "learner" is there already
  uint64_t last_heard_ns = 0;
  bool proved = false;  // its frames name the session: what we send to its address arrives
  uint64_t packet_number = 0;
  std::array<LaneState, kLanes> lanes;
  Mapping bodies;                           // of all slots; pages are touched when first used
  uint64_t held_bytes = 0, held_at_ns = 0;  // of the bodies; when they last became more
  std::array<PullQueue, 2> pulls;           // samples before the rest (params)
  // Null: the session is not sealed. Then: the client's role and key, and what answers its hello.
  std::unique_ptr<Sealing> sealing;
  Role role = Role::learner;
  Key key{}, ephemeral{};
  std::vector<std::byte> welcome;
  Traffic traffic;
  WaitTimes waits;
  uint64_t duplicates = 0;
  uint64_t turn = 0;  // in which it last had work done
  uint32_t work = 0;  // done for it in that turn, and what it owes from earlier ones
  // For appends: when the last one was answered, and the first whose answer is held back (0: none).
  uint64_t append_answered_ns = 0, first_held = 0;
  RowAllowance rows;
  bool has_streams = false;  // it has leased, resumed or appended
  Metrics report;            // what the client said about itself
  size_t report_bytes = 0;   // of a stats reply, that it takes

  explicit Peer(const Hello& hello);
  // Makes room for requests. Throws Error(server_full).
  void map_bodies();
  // The first bytes of the slot's body are in use; returns how many take memory that did not.
  uint64_t hold(Slot& slot, uint32_t bytes, uint64_t now_ns);
  // Gives back the memory of bodies that no request is in, and returns its bytes.
  uint64_t let_go();
  LaneState& lane(Lane which) { return lanes[static_cast<size_t>(which)]; }
};

}  // namespace drlnet
