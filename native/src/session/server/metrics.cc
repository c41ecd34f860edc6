// What a server's sessions know of themselves, their clients and their listeners.
#include <algorithm>
#include <map>
#include <utility>

#include "base/world.h"
#include "session/server/sessions.h"

namespace drlnet {
namespace {

// Sums over all listeners of one kind.
struct KindTotals {
  uint64_t clients = 0, handed_over = 0;
  Traffic traffic;
  std::array<HistogramReading, kOperations> handling, queueing;

  void read_times(const std::string& prefix, Metrics& metrics) const {
    for (size_t i = 0; i < kOperations; ++i) {
      if (handling[i].count == 0) continue;
      const std::string operation = prefix + operation_name(static_cast<Operation>(i));
      metrics.set(operation + ".handling", handling[i]);
      metrics.set(operation + ".queueing", queueing[i]);
    }
  }
  void add_times(const auto& others) {
    for (size_t i = 0; i < kOperations; ++i) {
      handling[i] = handling[i].merged(HistogramReading(others.handling[i]));
      queueing[i] = queueing[i].merged(HistogramReading(others.queueing[i]));
    }
  }
};

// Another thread's clock may be a moment behind ours.
double seconds(uint64_t since, uint64_t now) {
  return static_cast<double>(now - std::min(since, now)) / 1e9;
}

}  // namespace

// Adds up the time of rounds that had something to do. A row of them counts from its first frames
// to the end of the first round without any, where no client waits for us to read the clock. That
// round's one look for frames stands for the look that brought the first ones.
void Sessions::note_round(bool busy, uint64_t started) {
  if (busy == (busy_since_ns_ != 0)) return;
  if (busy) {
    busy_since_ns_ = started != 0 ? started : now_ns();
  } else {
    busy_ns_ += now_ns() - busy_since_ns_;
    busy_since_ns_ = 0;
  }
}

void Sessions::note_ran() {
  if (last_ran_.log == nullptr) return;
  clock_ns_ = now_ns();
  const auto [log, operation, started, arrived] = std::exchange(last_ran_, {});
  log->handling[static_cast<size_t>(operation)].record(clock_ns_ - started);
  log->queueing[static_cast<size_t>(operation)].record(started - std::min(started, arrived));
}

void Sessions::begin_wait(Peer& peer, Lane which, Slot& slot, uint16_t reason) {
  LaneState& lane = peer.lane(which);
  ++waiting_;
  slot.wait = reason;
  lane.waiting_since_ns = clock_ns_;
  peer.waits.begin(reason, clock_ns_);
  if (lane.waits != nullptr) lane.waits->begin(reason, clock_ns_);
}

void Sessions::end_wait(Peer& peer, Lane which, const Slot& slot) {
  LaneState& lane = peer.lane(which);
  --waiting_;
  peer.waits.end(slot.wait, lane.waiting_since_ns, clock_ns_);
  if (lane.waits != nullptr) lane.waits->end(slot.wait, lane.waiting_since_ns, clock_ns_);
}

void Sessions::read_metrics(Metrics& metrics, uint64_t now) const {
  for (size_t i = 0; i < kDrops; ++i) {
    metrics.set(std::string("server.drops.") + drop_name(static_cast<Drop>(i)), drops_[i]);
  }
  const double busy_now = busy_since_ns_ != 0 ? seconds(busy_since_ns_, now) : 0;
  metrics.set("server.busy_s", static_cast<double>(busy_ns_) / 1e9 + busy_now);
  metrics.set("server.expired_pulls", expired_pulls_);
  refusals_.each([&](const char* limit, uint64_t refused) {
    metrics.set(std::string("server.refused.") + limit, refused);
  });
  metrics.set("server.half_open", uint64_t{half_open_count_});
  metrics.set("server.request_bytes", held_bytes_);
  metrics.set("server.put_off", put_off_);
  metrics.set("server.strangers_dropped", strangers_dropped_);
  metrics.set("server.sealed", uint64_t{doorkeeper_ != nullptr});
  metrics.set("server.handshakes", doorkeeper_ ? doorkeeper_->handshakes : 0);
  metrics.set("server.handshakes_refused", doorkeeper_ ? doorkeeper_->refused : 0);
  metrics.set("server.handshakes_deferred", doorkeeper_ ? doorkeeper_->deferred : 0);
  metrics.set("server.rights_refused", rights_refused_);
  metrics.set("server.waiting_requests", waiting_);
  uint64_t count = 0;
  for (const auto& peer : peers_) {
    if (!peer || !peer->proved) continue;  // hellos of strangers would fill the reply
    ++count;
    read_peer(*peer, metrics, now);
  }
  metrics.set("server.clients", count);
  read_listeners(metrics);
}

void Sessions::read_peer(Peer& peer, Metrics& metrics, uint64_t now) const {
  const std::string prefix = "peer." + peer.name + ".";
  const Transport& transport = *transports_[peer.listener];
  metrics.set(prefix + "transport", std::string(transport.kind()));
  metrics.set(prefix + "endpoint", transport.describe(peer.endpoint));
  metrics.set(prefix + "silent_s", seconds(peer.last_heard_ns, now));
  metrics.set(prefix + "frame_bytes", uint64_t{peer.frame_bytes});
  metrics.set(prefix + "role", std::string(peer.sealing ? role_name(peer.role) : ""));
  peer.traffic.read_metrics(prefix, metrics);
  metrics.set(prefix + "duplicate_requests", peer.duplicates);
  metrics.set(prefix + "outstanding_reply_bytes", peer.pulls[0].bytes() + peer.pulls[1].bytes());
  uint16_t reason = 0;
  uint64_t since = now;
  for (LaneState& lane : peer.lanes) {
    const Slot* slot = lane.waiting();
    if (slot == nullptr || lane.waiting_since_ns > since) continue;
    reason = slot->wait;
    since = lane.waiting_since_ns;
  }
  metrics.set(prefix + "waiting_for", std::string(reason == 0 ? "" : kWaitNames[reason]));
  metrics.set(prefix + "waiting_s", seconds(since, now));
  peer.waits.read_times(prefix, metrics, now);
}

void Sessions::read_listeners(Metrics& metrics) const {
  std::map<std::string, KindTotals, std::less<>> kinds;
  KindTotals all;
  for (size_t i = 0; i < transports_.size(); ++i) {
    KindTotals& kind = kinds[std::string(transports_[i]->kind())];
    kind.clients += peers_on_[i];
    kind.handed_over += transports_[i]->counters().handed_over;
    kind.traffic.add(logs_[i]->of_ended);
    kind.add_times(*logs_[i]);
  }
  for (const auto& peer : peers_) {
    if (peer) kinds.find(transports_[peer->listener]->kind())->second.traffic.add(peer->traffic);
  }
  for (auto& [name, kind] : kinds) {
    const std::string prefix = "transport." + name + ".";
    metrics.set(prefix + "clients", kind.clients);
    metrics.set(prefix + "frames_handed_over", kind.handed_over);
    kind.traffic.read_metrics(prefix, metrics);
    kind.read_times(prefix, metrics);
    all.add_times(kind);
  }
  all.read_times("server.", metrics);
}

}  // namespace drlnet
