// The client's side of a session: opens it, sends requests within the server's credit, pulls
// replies into place, and repairs what the network lost. The client drives; the server only
// answers. Threading: one thread at a time (the client locks).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/histogram.h"
#include "base/metrics.h"
#include "session/client/destination.h"
#include "session/client/expected_fragments.h"
#include "session/client/overtaking.h"
#include "session/flow.h"
#include "session/fragments.h"
#include "session/keys/keys.h"
#include "session/outbox.h"
#include "session/traffic.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace drlnet {

// Names a call; stale once another call took its place in the lane.
struct CallId {
  Lane lane{};
  uint64_t request = 0;
};

struct Call {
  enum class State : uint8_t { idle, sending, accepted, pending, receiving, done };
  State state = State::idle;
  Operation operation{};
  uint64_t request = 0;
  std::vector<std::byte> body;
  // Where the reply goes: the destination when it is not empty, else `reply`, which grows with what
  // has come.
  Destination destination;
  std::vector<std::byte> reply;
  uint32_t expected_bytes = 0;  // of a reply with status ok; 0: as many as its operation allows
  bool unwanted = false;        // abandoned: the reply is received and thrown away
  Status status = Status::ok;
  uint16_t wait = 0;  // while pending: the reason
  // Repair: fragments of the request that the server has, fragments of the reply that we have.
  Fragments sent, received;
  uint32_t next_fragment = 0;  // of the request: the first never sent
  uint32_t reply_bytes = 0, asked = 0, got = 0;
  uint64_t issued_ns = 0, heard_ns = 0, retry_at_ns = 0, last_sent_ns = 0;
  uint32_t attempts = 0;
  // For telling what is lost: when each part of the request was sent last, in the order of sending,
  // and which fragments of the reply are asked for, those of one range in ascending order.
  struct Ask {
    uint32_t first, end;
    uint64_t order, sent_ns;
  };
  std::vector<uint64_t> orders;
  std::vector<Ask> asks;
  uint32_t probes = 0;    // since it was last heard
  bool repeated = false;  // a part of it was sent more than once

  void begin_sending(uint32_t frame_bytes);
  // Whether what came of the reply is in the destination.
  bool placed() const { return !destination.empty() && status == Status::ok; }
  std::span<const std::byte> result() const {
    return placed() ? destination.memory() : std::span<const std::byte>(reply);
  }
};

// What a client asks for at once of a reply of which this much may be under way to it. Each pull
// takes both sides' time; but the next one has to be there before this one is served.
constexpr uint32_t pull_bytes(uint32_t window) {
  return std::clamp<uint32_t>(window / 4, 64 * 1024, 256 * 1024);
}

class Connection {
 public:
  enum class State : uint8_t { hello, open, lost };

  // key: the session is sealed, over a link that leaves this machine's memory.
  Connection(Connected connected, std::string name, const std::optional<ClientKey>& key = {});
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One round: receive, repair, send. False when nothing moved.
  bool progress();
  // A round only if a frame has come: for loops that spin, which need not read the clock and look
  // at timers each time.
  bool glance();
  // When progress() has to run again even if nothing arrives.
  uint64_t next_deadline_ns() const { return next_deadline_; }
  WaitPoint arm() { return transport_->arm(); }
  Transport& transport() { return *transport_; }

  // How many bytes of a reply may come unasked: what every request says.
  uint32_t eager_bytes() const;
  State state() const { return state_; }
  const std::optional<Error>& failure() const { return failure_; }  // why it is lost
  // What the server says while it reads its state and opens no session; empty where it does not.
  // The session asks on until it does, for half an hour of such answers.
  std::string loading(uint64_t now_ns) const;
  size_t frame_bytes() const { return frame_bytes_; }
  // What the server said of itself once the session was open.
  uint64_t lineage() const { return lineage_; }
  // How often the server was started again during this session, which went on.
  uint64_t restarts() const { return restarts_; }
  // How often it was opened anew, for whichever reason.
  uint64_t reconnects() const { return reconnects_; }
  uint32_t shard() const { return shard_; }
  uint32_t shards() const { return std::max(1u, shards_); }

  // Whether the lane's window takes another request. Answers that are not yet collected do not
  // count.
  bool has_room(Operation operation) const { return in_the_way(operation) == nullptr; }
  // The unanswered call whose place the next one of this operation's lane would take, if any.
  const Call* in_the_way(Operation operation) const {
    const LaneCalls& lane = lanes_[static_cast<size_t>(lane_of(operation))];
    const Call& call = lane.calls[lane.place(lane.next)];
    const bool taken = (lane.taken & lane.bit(lane.next)) != 0;
    return taken && call.state != Call::State::done ? &call : nullptr;
  }
  // A call to fill (its body is empty, its room kept). has_room() must hold. submit() sends it,
  // withdraw() forgets it; one of the two comes before the next begin().
  Call& begin(Operation operation);
  CallId submit(Call& call, uint64_t now);
  CallId submit(Call& call);
  void withdraw(Call& call);
  Call& call(CallId id) {
    Call& call = lanes_[static_cast<size_t>(id.lane)].call(id.request);
    return call.request == id.request ? call : parked(id);
  }
  // The server answers the requests of a lane in their order: the oldest one that is not answered
  // yet. That is the call itself, or one before it.
  const Call& first_of_lane(const Call& call) const {
    const Call* first = head(lanes_[static_cast<size_t>(lane_of(call.operation))]);
    return first != nullptr ? *first : call;
  }
  bool done(CallId id) { return call(id).state == Call::State::done; }
  // Frees the call's place. Calls of a lane may be released in any order.
  void release(CallId id);
  // The reply goes into the call's own memory from now on; the destination is the caller's again.
  void detach(CallId id);
  // The reply is no longer wanted: it is received and thrown away.
  void abandon(CallId id);

  void read_metrics(Metrics& metrics, uint64_t now_ns) const;

 private:
  // What a session has that is to be sealed, or is.
  struct Keyed {
    explicit Keyed(const ClientKey& own) : key(own) {}

    ClientKey key;
    KeyedHello hello;                    // of the handshake under way
    std::optional<Initiator> initiator;  // once there is a cookie
    uint64_t cookie_ns = 0;              // when it came
    std::vector<std::byte> answer;       // the server's, once it has come, and what is in it
    Admission admission;
    std::unique_ptr<Sealing> sealing;
    uint64_t opened_ns = 0;  // when a frame of this session came last
    uint64_t forged = 0, replayed = 0;
    alignas(64) std::array<std::byte, kMaxFrameBytes> opened;  // the frame in hand
  };
  struct LaneCalls {
    uint64_t next = 1;
    std::vector<Call> calls;
    size_t window = 0;    // calls.size()
    uint32_t taken = 0;   // bit i: calls[i] is begun and not released
    uint32_t active = 0;  // bit i: calls[i] is under way

    size_t place(uint64_t request) const { return window_place(request, window); }
    uint32_t bit(uint64_t request) const { return 1u << place(request); }
    Call& call(uint64_t request) { return calls[place(request)]; }
  };
  static_assert(std::ranges::max(kLaneWindow) <= 32, "bits of LaneCalls");

  bool round(std::span<const RxFrame> frames);
  std::span<const RxFrame> receive();
  std::span<const RxFrame> receive_in_place();
  const Call* coming_call();
  Call& parked(CallId id);
  void say_hello(uint64_t now);
  Hello make_hello() const;
  void probe_sizes(FrameKind kind, std::span<const std::byte> hello);
  void say_bye();
  bool whole(const RxFrame& frame, std::span<const std::span<std::byte>> placed);
  void on_frame(const RxFrame& frame, uint64_t now);
  void on_loading(const std::string& cause, uint64_t now);
  void on_welcome(const Welcome& welcome, const FrameHeader& header, size_t probed, uint64_t now);
  // keyed.cc
  void say_keyed_hello();
  void on_keyed_frame(const RxFrame& frame, uint64_t now);
  void on_cookie(const FrameHeader& header, std::span<const std::byte> payload, uint64_t now);
  void on_keyed_welcome(const FrameHeader& header, std::span<const std::byte> frame, uint64_t now);
  void forget_handshake();
  Sealing* sealing() const { return keyed_ ? keyed_->sealing.get() : nullptr; }
  void on_ack(Call& call, std::span<const std::byte> payload, uint64_t now);
  void on_response(Call& call, const FrameHeader& header, const RxFrame& frame, uint64_t now);
  bool begin_reply(Call& call, const FrameHeader& header, uint64_t now);
  void place(Call& call, uint32_t offset, std::span<const std::byte> payload);
  uint32_t unasked_bytes(const Call& call) const;
  void finish(Call& call, uint64_t now);
  bool send_requests(uint64_t now);
  bool send_unsent(Call& call, uint64_t now);
  bool send_fragment(Call& call, uint32_t index, uint64_t now);
  void send_pulls(Call& call, uint64_t now);
  bool send_pull(Call& call, uint32_t first, uint32_t end, uint64_t now);
  void repair(Call& call, uint64_t now);
  void repair_reply(Call& call, uint64_t now);
  static Call* head(LaneCalls& lane);
  static const Call* head(const LaneCalls& lane) { return head(const_cast<LaneCalls&>(lane)); }
  bool may_probe(const Call& call) const;
  uint64_t patience_with(const Call& call) const;
  bool may_answer(uint64_t sent_ns, uint64_t now) const;
  void note_arrived(const Call& call, uint32_t first, uint32_t end, uint64_t now);
  void note_received(Call& call, uint32_t index, uint64_t now);
  Overtaking& replies_of(const Call& call);
  void recover(Call& call, uint64_t now);
  void recover_reply(Call& call, uint64_t now);
  bool probe(Call& call, uint64_t now);
  uint32_t least_window() const;
  void note_repeat(Call& call, uint64_t now);
  void look_for_losses(uint64_t now);
  void resume_calls();
  void note_window(uint64_t now);
  void fail(Error error);
  uint64_t timeout_of(const Call& call) const;
  void measured(uint64_t round_trip_ns);
  FrameHeader header_for(FrameKind kind, const Call& call);

  // What fragment `index` of the call's request takes of the server's receive buffer.
  static uint32_t charge_of(const Call& call, uint32_t index) {
    return std::max<uint32_t>(kHeaderBytes + call.sent.length_of(index), kMinFrameCharge);
  }

  template <typename Visit>
  void each_active(Visit visit) {
    for (LaneCalls& lane : lanes_) {
      for (uint32_t left = lane.active; left != 0; left &= left - 1) {
        visit(lane.calls[static_cast<size_t>(std::countr_zero(left))]);
      }
    }
  }

  std::unique_ptr<Transport> transport_;
  Endpoint server_;
  Outbox outbox_;
  std::string name_;
  State state_ = State::hello;
  std::optional<Error> failure_;
  uint64_t client_, nonce_ = 0, lineage_ = 0, incarnation_ = 0;
  uint32_t shard_ = 0, shards_ = 0;
  uint32_t connection_ = 0;
  bool checked_;                  // frames bear checksums
  std::unique_ptr<Keyed> keyed_;  // null: the session is not sealed
  uint64_t packet_number_ = 0;
  size_t frame_bytes_ = kMinFrameBytes;
  bool frames_apart_ = false;  // the server takes no joined frames
  uint64_t sizing_until_ = 0;  // a larger frame size may still be welcomed until then
  uint64_t hello_at_ns_ = 0;
  std::string loading_;                                 // what the server said last of its state
  uint64_t loading_heard_ns_ = 0, loading_for_ns_ = 0;  // when, and for how long it says so
  std::array<LaneCalls, kLanes> lanes_;
  std::vector<Call> parked_;  // done and not released; a later call has their place
  uint32_t active_ = 0;
  // Flow: what frames of requests in flight take of the server's receive buffer, against the
  // smaller of credit and window.
  uint32_t credit_ = kMinCreditBytes, window_ = kFirstWindowBytes, in_flight_ = 0;
  uint32_t pull_window_, pulled_ = 0;  // reply bytes asked for and not here
  // Whose reply's frames come at present, and the fragment behind the last one.
  CallId coming_;
  uint32_t coming_fragment_ = 0;
  ExpectedFragments expected_;
  // What overtakes what: requests by lane; replies, samples before the rest, as the server sends.
  std::array<Overtaking, kLanes> requests_;
  std::array<Overtaking, kLanes> answers_;  // by request: a lane's are given in order
  std::array<Overtaking, 2> replies_;
  uint64_t order_ = 0;                          // of the last part sent or range asked for
  std::array<uint64_t, kLanes> repeated_ns_{};  // when something of the lane was, last
  uint64_t shrink_again_ns_ = 0;                // the window, not before then
  double smoothed_ns_ = 1e6, variance_ns_ = 5e5;
  uint64_t timeout_ns_;  // of a request's first attempt
  bool unsent_ = false;  // some request may have fragments that were never sent
  uint64_t next_deadline_ = 0;
  // Something is to be sent for which credit or window have no room: seen in this round, and since
  // when (0: nothing is).
  bool held_ = false;
  uint64_t held_since_ns_ = 0;
  uint64_t window_waits_ = 0, window_wait_ns_ = 0;
  Traffic traffic_;
  uint64_t retransmissions_ = 0, repulls_ = 0, timeouts_ = 0, probes_ = 0, reconnects_ = 0,
           restarts_ = 0, drops_ = 0, altered_ = 0, duplicates_ = 0;
  // By operation, of those that were called: each takes 23 KB.
  std::array<std::unique_ptr<Histogram>, kOperations> latency_;
};

}  // namespace drlnet
