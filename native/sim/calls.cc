#include "calls.h"

namespace drlnet::sim {
namespace {

// A sleeper looks at its deadline this late at worst, and code takes time, too.
constexpr uint64_t kSlackNs = 60 * kMs;

void count(Run& run, Client& client) {
  const Metrics metrics = client.own_metrics();
  for (const auto& [name, value] : metrics.list()) {
    for (const char* counted :
         {"retransmissions", "repulls", "timeouts", "probes", "reconnects", "altered_frames",
          "duplicate_frames", "forged_frames", "replayed_frames"}) {
      if (name == counted) run.world.mark("client " + name, std::get<uint64_t>(value));
    }
  }
}

// The least of the roles that may do what clients of that name do.
Role role_called(const std::string& name) {
  if (name == "viewer") return Role::viewer;
  return name == "writer" || name == "actor" ? Role::actor : Role::learner;
}

std::unique_ptr<Guest> connect_to(Run& run, const ClientSettings& settings, uint32_t shard,
                                  const char* name) {
  ClientOptions options{shard_address(settings.server, shard), name, settings.timeout_ns,
                        Poll::block};
  if (run.keys) options.key = run.keys->of(role_called(name));
  return timed(run, "connect", settings.timeout_ns,
               [&] { return std::make_unique<Guest>(run, options); });
}

}  // namespace

CallClock::CallClock(Run& run, const char* what, uint64_t limit_ns)
    : run_(run),
      what_(what),
      limit_ns_(limit_ns),
      began_ns_(run.world.time_ns()),
      jumped_ns_(run.world.jumped_ns()) {}

void CallClock::check() const {
  const uint64_t took_ns = run_.world.time_ns() - began_ns_;
  // A clock that jumps is a process that was stopped, which is given the time again.
  const uint64_t given_ns = limit_ns_ + (run_.world.jumped_ns() - jumped_ns_) + kSlackNs;
  if (took_ns > given_ns) {
    broken("(3) no call goes on past its deadline: " + std::string(what_) + " took " +
           std::to_string(took_ns / kMs) + " ms, its deadline was " +
           std::to_string(limit_ns_ / kMs) + " ms");
  }
}

void CallClock::check(const Error& error) const {
  check();
  if (error.status() == Status::timeout && error.cause().find(" for ") == std::string::npos) {
    broken("(3) a call's error names what it waited for: " + error.cause());
  }
}

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
    case Status::unknown_lease:
      return run.world.mark("leases lost to silence");
    case Status::stream_gap:
      if (!run.keeps_state) break;
      return run.world.mark("streams with a gap behind a restart");
    case Status::loading:
      if (!run.keeps_state) break;
      return run.world.mark("calls that ended while a state was read");
    case Status::server_full:
      if (!run.limited) break;
      return run.world.mark("clients that a limit refused");
    default:
      break;
  }
  broken("an error that nothing explains: " + std::string(error.what()));
}

Guest::Guest(Run& run, const ClientOptions& options) : Client(options), run_(run) {
  run_.guests.come();
}

Guest::~Guest() { run_.guests.go(run_.world.time_ns()); }

uint64_t fetch_newer(Run& run, const ClientSettings& settings, Client& client, uint64_t version,
                     const std::string& name) {
  std::vector<std::byte> bytes;
  const uint64_t began_ns = run.world.time_ns(), least = run.oracle.least_version(name);
  const uint64_t newer = timed(run, "fetch", settings.timeout_ns, [&] {
    return name == Oracle::kParams ? client.fetch(version, bytes)
                                   : client.get_blob(name, version, bytes);
  });
  run.oracle.fetched(client.lineage(), name, version, newer, bytes, least, began_ns);
  if (newer != 0 && name != Oracle::kParams) run.world.mark("blobs fetched");
  return std::max(version, newer);
}

Session open(Run& run, const ClientSettings& settings, const char* name) {
  // The first shard makes what the others share.
  Session session{connect_to(run, settings, 0, name)};
  const auto open_table = [&] {
    if (run.keys && role_called(name) < Role::actor) return;
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
    sleep_until(now_ns() + kMs + random.below(50 * kMs + 10 * settings.pause_ns));
  }
}

}  // namespace drlnet::sim
