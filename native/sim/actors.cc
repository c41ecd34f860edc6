// A crowd: actors that come and go, and what looks at the server meanwhile and at the end.
#include <algorithm>
#include <map>

#include "calls.h"
#include "replay/streams.h"
#include "rows.h"
#include "session/server/sessions.h"
#include "spec/sample_layout.h"

namespace drlnet::sim {
namespace {

class Figures {
 public:
  explicit Figures(const Metrics& metrics) {
    for (const auto& [name, value] : metrics.list()) {
      if (const auto* number = std::get_if<uint64_t>(&value)) numbers_[name] = *number;
    }
  }
  uint64_t operator[](const std::string& name) const { return numbers_.at(name); }
  void require_at_most(const std::string& name, uint64_t most) const {
    const uint64_t number = numbers_.at(name);
    if (number <= most) return;
    broken("(5) the server's memory is bounded: " + name + " is " + std::to_string(number) +
           ", it may be " + std::to_string(most));
  }

 private:
  std::map<std::string, uint64_t> numbers_;
};

constexpr uint64_t kAuditorsBytes = 1 << 20;  // of its own requests
constexpr size_t kReleased = 4096;            // streams that are given back at once

// As many as a client may lease of it at once.
uint64_t most_streams(const Run& run, const ClientSettings& settings, uint32_t shards) {
  const uint64_t rows = shard_capacity(run.spec.capacity, shards, settings.shard);
  return std::min(run.limits.streams, rows / (2 * uint64_t{run.spec.item.window()}));
}

void draw(Run& run, const ClientSettings& settings, Session& session) {
  constexpr uint32_t kBatch = 32;
  std::vector<std::byte> reply(SampleLayout(run.spec).total_bytes(kBatch));
  try {
    session.client->sample(session.table, kBatch, reply, deadline_in(settings.timeout_ns));
  } catch (const Error& error) {
    // All that a shard held may have been too new to be on disk when it was killed.
    if (!run.keeps_state && !run.has_limiter()) throw;
    return expect(run, error);
  }
  run.oracle.items(session.client->lineage(), reply, kBatch, true);
}

}  // namespace

size_t Guests::most_since(uint64_t began_ns) {
  while (!gone_ns_.empty() && gone_ns_.front() + kSessionEndsNs < began_ns) gone_ns_.pop_front();
  return here_ + gone_ns_.size();
}

void act(Run& run, const ClientSettings& settings) {
  Rows rows(run, settings);
  persist(run, settings, "actor", [&](Session& session) { return rows.act(session); });
}

void watch(Run& run, const ClientSettings& settings) {
  Random random(settings.seed);
  persist(run, settings, "viewer", [&](Session& session) {
    Client& client = *session.client;
    while (run.world.time_ns() < settings.until_ns) {
      const uint64_t began_ns = run.world.time_ns();
      const Figures figures(
          timed(run, "stats", settings.timeout_ns, [&] { return client.stats(); }));
      figures.require_at_most("server.clients", run.guests.most_since(began_ns));
      figures.require_at_most("server.clients", run.limits.sessions);
      figures.require_at_most("server.half_open", run.limits.half_open);
      figures.require_at_most("server.request_bytes", run.limits.request_bytes);
      figures.require_at_most("table.replay.streams_leased",
                              most_streams(run, settings, client.shards()));
      sleep_until(now_ns() + random.below(100 * settings.pause_ns));
    }
    return true;
  });
}

void audit(Run& run, const ClientSettings& settings) {
  Session session = open(run, settings, "auditor");
  Client& client = *session.client;
  const Figures figures(client.stats());
  figures.require_at_most("server.clients", 1);
  figures.require_at_most("server.half_open", 0);
  figures.require_at_most("server.waiting_requests", 0);
  figures.require_at_most("server.request_bytes", kAuditorsBytes);
  figures.require_at_most("table.replay.streams_leased", figures["table.replay.streams_orphaned"]);
  run.world.mark("recorded frames refused", figures["server.drops.replayed"]);
  run.world.mark("draws that waited for items",
                 figures["table.replay.limiter_waits.samples_limit"]);
  run.world.mark("appends that waited for draws",
                 figures["table.replay.limiter_waits.inserts_limit"]);
  const auto count = static_cast<uint32_t>(most_streams(run, settings, client.shards()));
  const uint64_t began_ns = run.world.time_ns();
  const std::vector<Lease> leases = client.lease(session.table, count);
  for (const Lease& lease : leases) {
    run.oracle.leased(client.lineage(), settings.shard, lease, began_ns);
  }
  draw(run, settings, session);
  std::vector<StreamName> names;
  for (const Lease& lease : leases) {
    names.push_back({lease.ordinal, lease.epoch, lease.token});
    if (names.size() < kReleased && &lease != &leases.back()) continue;
    client.release(session.table, names);
    names.clear();
  }
  Figures(client.stats()).require_at_most("table.replay.streams_leased", 0);
}

}  // namespace drlnet::sim
