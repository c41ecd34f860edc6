// The server's sessions over all its listeners: handshake, requests put together from fragments,
// replies sent in turns. It knows nothing of tables; a RequestHandler runs the requests.
// Threading: one thread. Nothing allocates after a session's start but replies that grow.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/histogram.h"
#include "base/metrics.h"
#include "base/random.h"
#include "session/outbox.h"
#include "session/server/doorkeeper.h"
#include "session/server/peer.h"
#include "spec/limits.h"

namespace drlnet {

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // Runs the request and leaves its reply in the slot, or returns why it has to wait (not 0),
  // having changed nothing; the handler tries it again by Sessions::run_waiting().
  virtual uint16_t handle(Peer& peer, Slot& slot, std::span<const std::byte> body) = 0;
  // Some wait, and requests have run or a session has ended since: it is time to try.
  virtual void retry_waiting() = 0;
  // The session is over (bye, or silence): what it held is to be let go.
  virtual void ended(Peer& peer) = 0;
};

// What a listener's clients had of us: how long their requests took here, by operation, and what
// those that are gone have sent and received.
struct ListenerLog {
  std::array<Histogram, kOperations> handling, queueing;
  Traffic of_ended;
};

// What clients know a server by. A lineage is made once: the streams and tables of another one are
// others. An incarnation is a start; without a state on disk it is the lineage's only one.
struct ServerIdentity {
  uint64_t lineage, incarnation;
};

class Sessions {
 public:
  static constexpr size_t kMaxPeers = 16'384;
  static constexpr uint64_t kSilenceNs = 60'000'000'000;  // after which a session is over
  // After which the room that its long requests took is given back.
  static constexpr uint64_t kIdleBodiesNs = 10'000'000'000;
  // The longest frame, or as many others as one message over UDP takes: what a round costs beside
  // the copying is shared by more bytes. More would hold up another client's ping for longer.
  static constexpr uint32_t kTurnBytes = 56 * 1024;
  // While a long reply goes out, a client's appends are answered once in so long: some eight turns.
  static constexpr uint64_t kAppendPauseNs = 100'000;

  // The work that a session gets done in one turn (a round of poll()) while others want something,
  // and while none does. Its further requests wait for the next turn, before which frames of others
  // are looked for. Counted, not timed: a unit, about a microsecond, is a request, kUnitBytes of it
  // and its reply, kUnitItems that are drawn or changed. All that a client may have under way of
  // appends is less than kShareAlone: one that writes alone is never held up.
  static constexpr uint32_t kShare = 64, kShareAlone = 256;
  static constexpr uint32_t kUnitBytes = 16 * 1024, kUnitItems = 16;
  static_assert(kLaneWindow[1] * (1 + kMaxRequestBytes / kUnitBytes) < kShareAlone);
  // Frames that name no session have one share, from however many ports they come. An answer is a
  // unit, a session that opens this many.
  static constexpr uint32_t kOpening = 8;

  // shard, shards: what welcomes say.
  Sessions(RequestHandler& handler, ServerIdentity identity, uint32_t shard = 0,
           uint32_t shards = 0);

  void set_limits(const Limits& limits) { limits_ = limits; }
  const Limits& limits() const { return limits_; }
  // Opens no session while this is not empty: hellos are told it, in at most as many bytes.
  void set_loading(std::string what) { loading_ = std::move(what); }
  void count_refusal(Limit limit) { refusals_.count(limit); }
  // Before the first listener: over links that leave this machine's memory all sessions are sealed.
  void require_keys(std::shared_ptr<const KeyStore> keys);
  void add_listener(std::unique_ptr<Transport> transport);
  std::span<const std::unique_ptr<Transport>> listeners() const { return transports_; }

  // One round: receive, run, one turn of bulk replies, send. False when there was nothing to do.
  // Reads the clock only when something has come.
  bool poll();
  // The next round lets the handler try the requests that wait, whatever has run here.
  void retry() { ran_ = true; }
  // The request that holds up the session's lane runs again; it may go on waiting.
  void run_waiting(uint32_t connection, Lane which);
  // Bulk replies or unsent frames are waiting for a device to take them.
  bool output_blocked() const;
  // Ends silent sessions. Call about once a second.
  void expire(uint64_t now_ns);
  // No client could be heard for that long: this process was stopped, or its thread was busy.
  void stood_still(uint64_t ns, uint64_t now_ns);
  std::vector<Peer*> peers();
  void read_metrics(Metrics& metrics, uint64_t now_ns) const;
  // When frames last came in, or a request after that was last answered: as good as a clock for
  // what runs a request, and free.
  uint64_t clock_ns() const { return clock_ns_; }

 private:
  // A connection number is an index below, random bits above, so that a stale one seldom fits.
  static constexpr uint32_t kIndexBits = 14;
  static_assert(kMaxPeers <= (1u << kIndexBits));
  static constexpr uint32_t index_of(uint32_t connection) {
    return connection & ((1u << kIndexBits) - 1);
  }

  void on_frame(uint16_t listener, const RxFrame& frame, uint64_t now_ns);
  void on_session_frame(Peer& peer, const FrameHeader& header, std::span<const std::byte> frame,
                        uint64_t now_ns);
  Peer* peer_of(uint16_t listener, const RxFrame& frame, const FrameHeader& header);
  // keyed.cc
  void on_keyed_frame(uint16_t listener, const RxFrame& frame, uint64_t now_ns);
  void on_keyed_hello(uint16_t listener, const RxFrame& frame, const FrameHeader& header,
                      uint64_t now_ns);
  void welcome_again(const Peer& peer, uint16_t listener, const RxFrame& frame,
                     const FrameHeader& hello);
  void heed_new_keys();
  uint16_t refuse_rights(const Peer& peer, Slot& slot);
  void refuse(uint16_t listener, const Endpoint& to, uint64_t nonce, Status status,
              std::string_view cause, std::string_view remedy);
  void refuse_version(uint16_t listener, const Endpoint& to, uint64_t nonce,
                      const FrameHeader& header);
  void refuse_while_loading(uint16_t listener, const Endpoint& to, uint64_t nonce);
  void refuse_full(uint16_t listener, const Endpoint& to, uint64_t nonce);
  Welcome make_welcome(uint16_t listener, uint64_t nonce) const;
  void on_hello(uint16_t listener, const RxFrame& frame, const FrameHeader& header,
                uint64_t now_ns);
  size_t free_place();
  Peer* opened_by(const Hello& hello, const Endpoint& from);
  void make_room();
  void end_oldest_half_open();
  bool prove(Peer& peer, const FrameHeader& header);
  void forget_opening(const Peer& peer);
  void hold(Peer& peer, Slot& slot, uint32_t bytes);
  void let_bodies_go();
  void admit(size_t index, uint16_t listener, const Hello& hello, const Endpoint& from);
  void on_request(Peer& peer, const FrameHeader& header, std::span<const std::byte> payload,
                  uint64_t now_ns);
  void on_fragment(Peer& peer, Slot& slot, const FrameHeader& header,
                   std::span<const std::byte> payload);
  void on_pull(Peer& peer, const FrameHeader& header);
  // shares.cc
  void begin_turn();
  void share_among(uint16_t listener, std::span<const RxFrame> frames);
  bool has_share(Peer& peer);
  void charge(Peer& peer, const Slot& slot);
  void charge_answer(Peer& peer, const Slot& slot);
  void put_off(Peer& peer, Lane lane);
  bool run_backlog();
  bool heed_stranger(uint32_t work = 1);
  void run_lane(Peer& peer, Lane lane);
  bool run_slot(Peer& peer, Lane lane, Slot& slot, std::span<const std::byte> body);
  void answer(Peer& peer, Lane lane, Slot& slot);
  void begin_wait(Peer& peer, Lane which, Slot& slot, uint16_t reason);
  void end_wait(Peer& peer, Lane which, const Slot& slot);
  void note_ran();
  void note_round(bool busy, uint64_t started_ns);
  void send_acks();
  bool hold_answer(Peer& peer, Lane which, const Slot& slot);
  void answer_held(bool turned);
  bool queue_pull(Peer& peer, const Pull& pull);
  bool serve_turn();
  bool serve_pull(Peer& peer, Pull& pull, uint32_t& budget);

  std::string distinct(const std::string& name) const;
  void read_peer(Peer& peer, Metrics& metrics, uint64_t now_ns) const;
  void read_listeners(Metrics& metrics) const;

  FrameHeader header_for(Peer& peer, FrameKind kind, Lane lane, const Slot& slot) const;
  void send(Peer& peer, const FrameHeader& header, std::span<const std::byte> payload);
  void send_stateless(uint16_t listener, const Endpoint& to, FrameHeader header,
                      std::span<const std::byte> payload, size_t frame_bytes);
  void share_credit(uint16_t listener);
  Peer* find(uint32_t connection);
  void end(size_t index);
  void drop(Drop reason) { ++drops_[static_cast<size_t>(reason)]; }

  RequestHandler& handler_;
  ServerIdentity identity_;
  uint32_t shard_, shards_;
  Random random_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Outbox> outboxes_;
  std::vector<bool> checked_;               // per listener: frames bear checksums
  std::vector<bool> keyed_;                 // per listener: sessions are sealed
  std::unique_ptr<Doorkeeper> doorkeeper_;  // null: there are no keys
  std::vector<uint32_t> peers_on_;          // per listener
  std::vector<uint32_t> credits_;           // of each of its peers
  std::vector<std::unique_ptr<ListenerLog>> logs_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unordered_map<uint64_t, size_t> indices_;  // in peers_, by the client's own number
  std::unordered_map<uint64_t, size_t> opening_;  // of those that have not proved, by their hello
  uint64_t waiting_ = 0;                          // requests
  std::vector<std::pair<uint32_t, Slot*>> acks_;  // slots that owe an ack
  std::vector<uint32_t> held_answers_;            // sessions with answers that are held back
  // Sessions with pulls, at each of Peer::pulls' levels: whose turn it is, then the others. None of
  // the many that only append is looked at for a turn.
  std::array<std::vector<uint32_t>, 2> turns_;
  uint32_t turn_count_ = 0;
  uint64_t clock_ns_ = 0;
  uint64_t busy_ns_ = 0, busy_since_ns_ = 0;  // since: 0 while there is nothing to do
  std::string loading_;
  bool pulls_ = false;  // some client may wait for a part of a reply
  bool ran_ = false;    // something did since waiting ones were last tried
  bool idle_ = false;   // the last round found nothing to do, and left nothing to be done
  // The request that ran last, until its end is known: that of its reply's sending, or the next
  // one's beginning.
  struct Ran {
    ListenerLog* log = nullptr;  // null: noted already
    Operation operation{};
    uint64_t started_ns = 0, arrived_ns = 0;
  } last_ran_;
  std::array<uint64_t, kDrops> drops_{};
  uint64_t expired_pulls_ = 0;
  uint64_t rights_refused_ = 0;
  std::deque<uint32_t> half_open_;  // sessions in the order of their hellos; some have proved since
  size_t half_open_count_ = 0, peer_count_ = 0;
  Limits limits_;
  Refusals refusals_;
  uint64_t held_bytes_ = 0;  // of all sessions' bodies
  uint64_t turn_ = 0;        // counts rounds of poll()
  uint64_t alone_turn_ = 0;  // the last one in which at most one session wanted something
  bool contended_ = false;   // in this turn more than one session, or stranger, wants something
  bool heard_ = false;       // frames have come in this turn
  uint32_t strangers_ = 0;   // work for them in this turn
  std::deque<std::pair<uint32_t, Lane>> backlog_;  // lanes that wait for a turn: each once
  uint64_t put_off_ = 0, strangers_dropped_ = 0;
};

}  // namespace drlnet
