#include "clients.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "base/world.h"
#include "client/writer.h"
#include "spec/sample_layout.h"

namespace drlnet::sim {
namespace {

constexpr uint64_t kMs = 1'000'000;
// A sleeper looks at its deadline this late at worst, and code takes time, too.
constexpr uint64_t kSlackNs = 60 * kMs;

// Runs a call and sees that it ends by its deadline: (3).
template <typename Action>
auto timed(Run& run, const char* what, uint64_t limit_ns, Action action) {
  struct Clock {
    Run& run;
    const char* what;
    uint64_t limit_ns;
    uint64_t began_ns = run.world.time_ns(), jumped_ns = run.world.jumped_ns();
    void check() const {
      const uint64_t took_ns = run.world.time_ns() - began_ns;
      // A clock that jumps is a process that was stopped, which is given the time again.
      const uint64_t given_ns = limit_ns + (run.world.jumped_ns() - jumped_ns) + kSlackNs;
      if (took_ns > given_ns) {
        broken("(3) no call goes on past its deadline: " + std::string(what) + " took " +
               std::to_string(took_ns / kMs) + " ms, its deadline was " +
               std::to_string(limit_ns / kMs) + " ms");
      }
    }
  } const clock{run, what, limit_ns};
  try {
    if constexpr (std::is_void_v<decltype(action())>) {
      action();
      clock.check();
    } else {
      auto result = action();
      clock.check();
      return result;
    }
  } catch (const Error& error) {
    clock.check();
    if (error.status() == Status::timeout && error.cause().find(" for ") == std::string::npos) {
      broken("(3) a call's error names what it waited for: " + error.cause());
    }
    throw;
  }
}

// Errors that a network and a restart explain. Others are ours.
void expect(Run& run, const Error& error) {
  run.world.note("error", static_cast<uint64_t>(error.status()));
  switch (error.status()) {
    case Status::timeout:
      return run.world.mark("calls ran into their deadlines");
    case Status::transport:
      return run.world.mark("servers that did not answer a first time");
    case Status::session_lost:
      return run.world.mark("sessions lost to a restart");
    case Status::sample_expired:
      return run.world.mark("samples expired");
    case Status::another_publisher:
      return run.world.mark("publishers replaced by a late request");
    case Status::stream_gap:
      if (!run.keeps_state) break;
      return run.world.mark("streams with a gap behind a restart");
    case Status::loading:
      if (!run.keeps_state) break;
      return run.world.mark("calls that ended while a state was read");
    case Status::unknown_lease:
      return run.world.mark("leases lost to silence");
    default:
      break;
  }
  broken("an error that nothing explains: " + std::string(error.what()));
}

void count(Run& run, Client& client) {
  const Metrics metrics = client.own_metrics();
  for (const auto& [name, value] : metrics.list()) {
    for (const char* counted : {"retransmissions", "repulls", "timeouts", "probes", "reconnects",
                                "altered_frames", "duplicate_frames"}) {
      if (name == counted) run.world.mark("client " + name, std::get<uint64_t>(value));
    }
  }
}

struct Session {
  std::unique_ptr<Client> client;
  uint32_t table = 0;
};

std::unique_ptr<Client> connect_to(Run& run, const ClientSettings& settings, uint32_t shard,
                                   const char* name) {
  const ClientOptions options{shard_address(settings.server, shard), name, settings.timeout_ns,
                              Poll::block};
  return timed(run, "connect", settings.timeout_ns,
               [&] { return std::make_unique<Client>(options); });
}

Session open(Run& run, const ClientSettings& settings, const char* name) {
  // The first shard makes what the others share.
  Session session{connect_to(run, settings, 0, name)};
  const auto open_table = [&] {
    session.table = timed(run, "open_table", settings.timeout_ns,
                          [&] { return session.client->open_table(run.spec); });
  };
  open_table();
  if (settings.shard != 0) {
    session.client = connect_to(run, settings, settings.shard, name);
    open_table();
  }
  return session;
}

// Runs `work` over one session after another until it says that it is done.
void persist(Run& run, const ClientSettings& settings, const char* name,
             const std::function<bool(Session&)>& work) {
  Random random(settings.seed ^ 77);
  for (;;) {
    Session session;
    try {
      session = open(run, settings, name);
      const bool done = work(session);
      count(run, *session.client);
      if (done) return;
    } catch (const Error& error) {
      // A restarted server's shard may not have the table yet.
      const bool restarting = error.status() == Status::table_dropped;
      if (!restarting) expect(run, error);
      if (session.client) count(run, *session.client);
    }
    sleep_until(now_ns() + kMs + random.below(50 * kMs));
  }
}

// One that writes.
class Rows {
 public:
  Rows(Run& run, const ClientSettings& settings)
      : run_(run), settings_(settings), random_(settings.seed) {}

  bool work(Session& session) {
    take_streams(session);
    since_ns_ = 0;
    StreamWriter writer(*session.client, session.table, run_.spec, leases_,
                        {.flush_rows = 1 + static_cast<uint32_t>(random_.below(32)),
                         .timeout_ns = settings_.timeout_ns});
    for (; round_ < settings_.rounds; ++round_) {
      append(writer);
      if (random_.below(8) == 0) flush(writer);
      if (random_.below(4) == 0) sleep_until(now_ns() + random_.below(20 * kMs));
      if (random_.below(64) == 0) {  // and goes on with the streams in another session
        ++round_;
        return false;
      }
    }
    flush(writer);
    return true;
  }

 private:
  void take_streams(Session& session) {
    Client& client = *session.client;
    if (!leases_.empty() && client.lineage() == lineage_) {
      std::vector<StreamName> names;
      for (const Lease& one : leases_) names.push_back({one.ordinal, one.epoch, one.token});
      const uint64_t began_ns = run_.world.time_ns();
      try {
        const auto resumed = timed(run_, "resume", settings_.timeout_ns,
                                   [&] { return client.resume(session.table, names); });
        for (size_t i = 0; i < resumed.size(); ++i) {
          run_.oracle.resumed(lineage_, resumed[i], began_ns);
          run_.world.mark("streams resumed");
          if (resumed[i].next_step < leases_[i].next_step) {
            run_.world.mark("streams resumed with rows not stored");
          }
        }
        leases_ = resumed;
        return;
      } catch (const Error& error) {
        if (error.status() != Status::unknown_lease) throw;
        expect(run_, error);
        leases_.clear();
      }
    }
    lineage_ = client.lineage();
    const auto streams = 1 + static_cast<uint32_t>(random_.below(3));
    leases_ = timed(run_, "lease", settings_.timeout_ns,
                    [&] { return client.lease(session.table, streams); });
    for (const Lease& lease : leases_) run_.oracle.leased(lineage_, lease);
  }

  void append(StreamWriter& writer) {
    const size_t streams = leases_.size();
    const size_t payload_bytes = run_.spec.columns[1].bytes();
    std::vector<RowName> names(streams);
    std::vector<std::byte> payloads(streams * payload_bytes);
    std::vector<uint8_t> first(streams), last(streams);
    std::vector<int64_t> steps(streams), indices, item_steps;
    std::vector<float> priorities;
    for (size_t s = 0; s < streams; ++s) {
      names[s] = {leases_[s].token, leases_[s].next_step};
      fill_row(names[s], std::span(payloads).subspan(s * payload_bytes, payload_bytes));
      first[s] = names[s].step % kEpisodeSteps == 0;
      last[s] = names[s].step % kEpisodeSteps == kEpisodeSteps - 1;
      if (!last[s]) {
        indices.push_back(static_cast<int64_t>(s));
        item_steps.push_back(static_cast<int64_t>(names[s].step));
        priorities.push_back(Oracle::initial_priority(names[s]));
      }
      run_.oracle.sent(names[s].token, ++leases_[s].next_step);
    }
    if (since_ns_ == 0) since_ns_ = run_.world.time_ns();
    const std::byte* columns[] = {reinterpret_cast<const std::byte*>(names.data()),
                                  payloads.data()};
    timed(run_, "append", settings_.timeout_ns * 9, [&] {
      writer.append(columns, first, last, {}, steps);
      if (!indices.empty()) writer.add_items(indices, item_steps, priorities);
    });
  }

  // Each of the appends under way has a deadline of its own.
  void flush(StreamWriter& writer) {
    timed(run_, "flush", settings_.timeout_ns * 9, [&] { writer.flush(); });
    const uint64_t began_ns = std::exchange(since_ns_, 0);
    if (began_ns == 0) return;  // nothing new: no answer came
    for (const Lease& lease : leases_) {
      run_.oracle.acknowledged(lease.token, lease.next_step, began_ns);
    }
  }

  Run& run_;
  const ClientSettings& settings_;
  Random random_;
  uint64_t lineage_ = 0;
  uint64_t since_ns_ = 0;  // when the first row was appended that is not acknowledged; 0: all are
  uint32_t round_ = 0;
  std::vector<Lease> leases_;
};

std::vector<uint64_t> keys_of(const SampleLayout& layout, std::span<const std::byte> reply,
                              uint32_t count) {
  std::vector<uint64_t> keys(count);
  std::memcpy(keys.data(), reply.data() + layout.keys(count), 8 * count);
  return keys;
}

// The version that it has then.
uint64_t fetch_newer(Run& run, const ClientSettings& settings, Client& client, uint64_t version) {
  std::vector<std::byte> params;
  const uint64_t began_ns = run.world.time_ns(), least = run.oracle.least_version();
  const uint64_t newer =
      timed(run, "fetch", settings.timeout_ns, [&] { return client.fetch(version, params); });
  run.oracle.fetched(client.lineage(), version, newer, params, least, began_ns);
  return std::max(version, newer);
}

}  // namespace

void write_rows(Run& run, const ClientSettings& settings) {
  Rows rows(run, settings);
  persist(run, settings, "writer", [&](Session& session) { return rows.work(session); });
}

void learn(Run& run, const ClientSettings& settings) {
  Random random(settings.seed);
  const SampleLayout layout(run.spec);
  uint32_t round = 0;
  persist(run, settings, "learner", [&](Session& session) {
    Client& client = *session.client;
    const uint64_t lineage = client.lineage();
    for (; round < settings.rounds; ++round) {
      const auto batch = 1 + static_cast<uint32_t>(random.below(48));
      std::vector<std::byte> reply(layout.total_bytes(batch));
      try {
        timed(run, "sample", settings.timeout_ns, [&] {
          client.sample(session.table, batch, reply, deadline_in(settings.timeout_ns));
        });
      } catch (const Error& error) {
        // It may wait for rows that no writer sends any more.
        if (error.status() != Status::timeout && error.status() != Status::sample_expired) throw;
        expect(run, error);
        round += 8;
        continue;
      }
      run.oracle.items(lineage, reply, batch, true);
      std::vector<uint64_t> keys = keys_of(layout, reply, batch);
      std::ranges::sort(keys);
      keys.erase(std::ranges::unique(keys).begin(), keys.end());
      std::vector<float> priorities;
      for (const uint64_t key : keys) {
        run.oracle.updating(lineage, key);
        priorities.push_back(Oracle::updated_priority(key));
      }
      if (random.below(2) == 0) {
        client.update_priorities_async(session.table, keys, priorities);
      } else {
        const uint64_t began_ns = run.world.time_ns();
        const UpdateResult result = timed(run, "update_priorities", settings.timeout_ns, [&] {
          return client.update_priorities(session.table, keys, priorities);
        });
        if (result.stale > 0 && run.keeps_state) continue;  // those of an earlier life, perhaps
        for (const uint64_t key : keys) run.oracle.updated(lineage, key, began_ns);
      }
      if (random.below(4) == 0) sleep_until(now_ns() + random.below(20 * kMs));
    }
    return true;
  });
}

void publish(Run& run, const ClientSettings& settings) {
  Random random(settings.seed);
  uint32_t round = 0;
  persist(run, settings, "publisher", [&](Session& session) {
    Client& client = *session.client;
    timed(run, "take_over", settings.timeout_ns, [&] { client.take_over(); });
    std::vector<std::byte> params;
    for (; round < settings.rounds; ++round) {
      const uint64_t number = ++run.publications;
      Oracle::fill_params(number, params);
      const uint64_t began_ns = run.world.time_ns();
      const uint64_t version =
          timed(run, "publish", settings.timeout_ns, [&] { return client.publish(params); });
      run.oracle.published(client.lineage(), version, number, began_ns);
      sleep_until(now_ns() + random.below(60 * kMs));
    }
    return true;
  });
}

void fetch(Run& run, const ClientSettings& settings) {
  Random random(settings.seed);
  uint32_t round = 0;
  persist(run, settings, "actor", [&](Session& session) {
    Client& client = *session.client;
    for (uint64_t version = 0; round < settings.rounds; ++round) {
      version = fetch_newer(run, settings, client, version);
      sleep_until(now_ns() + random.below(40 * kMs));
    }
    return true;
  });
}

void verify(Run& run, const ClientSettings& settings) {
  const SampleLayout layout(run.spec);
  Session session = open(run, settings, "verifier");
  Client& client = *session.client;
  run.lineage = client.lineage();
  if (settings.shard == 0) fetch_newer(run, settings, client, 0);
  PriorityChanges changes;
  for (bool more = true; more;) {
    more = client.new_priorities(session.table, changes);
    for (size_t at = 0; at < changes.keys.size(); at += 64) {
      const auto count = static_cast<uint32_t>(std::min<size_t>(64, changes.keys.size() - at));
      std::vector<std::byte> reply(layout.total_bytes(count));
      client.read_items(session.table, std::span(changes.keys).subspan(at, count), reply,
                        deadline_in(settings.timeout_ns));
      run.oracle.items(client.lineage(), reply, count, false);
      const std::vector<uint64_t> held = keys_of(layout, reply, count);
      for (uint32_t i = 0; i < count; ++i) {
        if (held[i] == kNoKey) continue;
        run.oracle.stored(client.lineage(), held[i], changes.priorities[at + i]);
      }
    }
  }
}

}  // namespace drlnet::sim
