#include "scenario.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "base/assert.h"
#include "base/world.h"
#include "clients.h"
#include "disk.h"
#include "network.h"
#include "server/server.h"

namespace drlnet::sim {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
// After which all must have come to their ends: some wait until what dead ones held is free, which
// a session's silence and a stream's grace take.
constexpr uint64_t kLiveNs = 100 * kSecond, kCrowdLiveNs = 300 * kSecond;
constexpr const char* kAddress = "sim://server";
constexpr uint32_t kServerHost = 0;
constexpr const char *kDisk = "/disk", *kState = "/disk/state";

uint64_t peak_bytes() {
  rusage usage{};
  DRLNET_ASSERT(getrusage(RUSAGE_SELF, &usage) == 0);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

class System {
 public:
  explicit System(const Wanted& wanted)
      : settings_(draw_settings(wanted)),
        world_(wanted.seed),
        network_(world_, wanted.seed ^ 0x4E47, settings_.frame_bytes, wanted.checked),
        disk_(world_, wanted.seed ^ 0xD15C, kDisk),
        oracle_(world_, settings_.spec, settings_.durability_ns),
        run_{.world = world_,
             .oracle = oracle_,
             .spec = settings_.spec,
             .end_ns = world_.time_ns() + settings_.span_ns,
             .keeps_state = settings_.durability_ns.has_value(),
             .limits = settings_.limits,
             .limited = settings_.limited},
        random_(wanted.seed ^ 0xC11E) {
    world_.trace = wanted.trace;
    if (settings_.keyed) run_.keys.emplace();
    clients_.resize(settings_.hosts());
    run_.rows_to_load = [this] {
      uint64_t rows = 0;
      for (const auto& server : server_->servers) rows += server->rows_to_load();
      return rows;
    };
    start_server();
    start_clients();
    const std::vector<Fault> faults = faults_of(wanted);
    for (size_t i = 0; i < faults.size(); ++i) {
      if (wanted.only && !wanted.only->contains(i)) continue;
      world_.at(world_.time_ns() + faults[i].begin_ns, [this, fault = faults[i]] { begin(fault); });
    }
  }

  Outcome run() {
    const uint64_t began = world_.time_ns();
    world_.run(run_.end_ns, [] { return false; });
    network_.heal();
    disk_.heal();
    oracle_.disk_works();
    world_.note("healed");
    let_all_end("the system works again once the network does");
    for_each_shard(write_rows, "a client that comes now can write");
    if (run_.keeps_state) restart_once_more();
    rest(kSessionEndsNs);
    for_each_shard(verify, "what is stored can be read once the network works");
    oracle_.complete(run_.lineage, settings_.spec.capacity / settings_.shards);
    rest(kSessionEndsNs);  // in which streams of sessions that had ended then have their grace, too
    for_each_shard(audit, "nothing is left of clients that are gone");
    server_->kill(world_);
    world_.run(world_.time_ns() + kSecond, [&] { return server_->process->fibers.empty(); });
    return {world_.hash(),     world_.events(),
            network_.frames(), static_cast<double>(world_.time_ns() - began) / 1e9,
            peak_bytes(),      world_.marks()};
  }

 private:
  // One start of the server.
  struct ServerLife {
    std::shared_ptr<Process> process;
    std::vector<std::unique_ptr<Server>> servers;
    uint32_t running = 0;  // of them
    void kill(World& world) { world.kill(*process); }
  };
  struct ClientLife {
    std::shared_ptr<Process> process;
    std::function<void()> body;
  };

  bool server_up() const { return server_ && !server_->process->dead && !server_->servers.empty(); }

  void let_all_end(const std::string& promise) {
    const uint64_t patience_ns = settings_.actors > 0 ? kCrowdLiveNs : kLiveNs;
    world_.run(std::max(run_.end_ns, world_.time_ns()) + patience_ns,
               [&] { return at_work_ == 0 && server_up(); });
    if (at_work_ > 0 || !server_up()) {
      broken(promise + ": " + std::to_string(at_work_) + " clients did not come to their ends");
    }
  }
  void rest(uint64_t ns) {
    world_.run(world_.time_ns() + ns, [] { return false; });
  }
  // A client for each, one after another, from hosts of their own.
  void for_each_shard(ClientRole role, const std::string& promise) {
    for (uint32_t shard = 0; shard < settings_.shards; ++shard) {
      start_client(settings_.hosts() + shard, role, settings_of(shard, 5 * kSecond));
      if (role == write_rows && run_.has_limiter()) {  // it waits for draws
        start_client(settings_.hosts() + settings_.shards, learn, settings_of(shard, 5 * kSecond));
      }
      let_all_end(promise);
    }
  }

  void start_server() {
    auto life = std::make_shared<ServerLife>();
    server_ = life;
    life->process = world_.make_process("server", kServerHost);
    life->process->on_death = [this] { oracle_.server_dies(); };
    world_.note("server starts");
    world_.start(life->process, [this, life] { serve(life); });
  }

  void serve(const std::shared_ptr<ServerLife>& life) {
    ServerOptions options{{kAddress}, Poll::block, settings_.table_bytes};
    options.limits = settings_.limits;
    if (run_.keys) options.keys = run_.keys->store();
    if (run_.keeps_state) {
      options.state_folder = folder_;
      options.durability_ns = *settings_.durability_ns;
    }
    try {
      life->servers = make_shards(options, settings_.shards, 0, on_loading());
    } catch (const Error& error) {
      return did_not_start(life, error);
    }
    note_what_was_found(*life);
    life->running = settings_.shards;
    const auto run_shard = [life](uint32_t shard) {
      life->servers[shard]->run();
      --life->running;
    };
    for (uint32_t shard = 1; shard < settings_.shards; ++shard) {
      world_.start(life->process, [run_shard, shard] { run_shard(shard); });
    }
    try {
      run_shard(0);
      while (life->running > 0) sleep_until(now_ns() + 1'000);
      life->servers.clear();
    } catch (const Killed&) {
      // Once the others have unwound, too.
      world_.at(world_.time_ns(), [this, life] { clear(life); });
    }
  }

  // It is started again, over and over; where what rotted was all that there was, in another
  // folder.
  void did_not_start(const std::shared_ptr<ServerLife>& life, const Error& error) {
    if (disk_.failed_ns() + kSecond / 5 > world_.time_ns()) {
      world_.mark("starts that the disk refused");
    } else if (run_.disk_rots) {
      world_.mark("states that could not be read at all");
      folder_ = kState + std::to_string(++folders_);
    } else {
      broken(std::string("(4) a server starts with the state that it has: ") + error.what());
    }
    world_.at(world_.time_ns() + kSecond / 20, [this, life] {
      if (server_ == life) start_server();
    });
  }

  // In half of the starts, clients that come meanwhile are answered.
  OnLoading on_loading() {
    if (!run_.keeps_state || random_.below(2) == 0) return {};
    return [this](const std::string&) {
      world_.mark("looks for clients while a state is read");
      return true;
    };
  }

  void note_what_was_found(const ServerLife& life) {
    for (const auto& server : life.servers) {
      for (const std::string& note : server->state_notes()) {
        world_.mark("records or rows found damaged");
        if (world_.trace) std::fprintf(stderr, "%s\n", note.c_str());
      }
    }
  }

  // Nothing that was durable may be missing then.
  void restart_once_more() {
    world_.run(world_.time_ns() + random_.below(2) * 2 * kSecond, [] { return false; });
    const bool power = random_.below(2) == 0, in_order = random_.below(4) == 0;
    const std::shared_ptr<ServerLife> life = server_;
    if (in_order) {
      world_.run(world_.time_ns() + 2 * kSecond, [] { return false; });  // a disk is tried again
      world_.mark("servers ended in order");
      for (const auto& server : life->servers) server->stop();
      if (run_.disk_rots) oracle_.server_dies();  // what is damaged shows when it starts again
    } else {
      world_.kill(*life->process);
    }
    world_.run(world_.time_ns() + 5 * kSecond, [&] { return gone(*life); });
    if (!gone(*life)) broken("a server ends when it is told to");
    if (power) disk_.lose_power();
    start_server();
    world_.run(world_.time_ns() + 20 * kSecond, [&] { return server_up(); });
    if (!server_up()) broken("(4) a server starts with the state that it has");
  }

  static bool gone(const ServerLife& life) {
    return life.process->fibers.empty() && life.servers.empty();
  }

  void clear(const std::shared_ptr<ServerLife>& life) {
    if (!life->process->fibers.empty()) {
      return world_.at(world_.time_ns() + 1, [this, life] { clear(life); });
    }
    life->servers.clear();
  }

  ClientSettings settings_of(uint32_t shard, uint64_t timeout_ns) {
    return {.server = kAddress,
            .shard = shard,
            .timeout_ns = timeout_ns,
            .rounds = 20 + static_cast<uint32_t>(random_.below(120)),
            .seed = random_.bits(),
            .pause_ns = settings_.pause_ns};
  }

  void start_clients() {
    uint32_t host = 1;
    const auto add = [&](ClientRole role, bool sharded, uint64_t after_end_ns) {
      const uint32_t shard = sharded ? host % settings_.shards : 0;
      const uint64_t timeout_ns = kSecond / 5 + random_.below(2 * kSecond);
      ClientSettings settings = settings_of(shard, timeout_ns);
      if (role == learn) settings.pause_ns += settings_.draw_pause_ns;
      if (settings_.actors > 0) settings.until_ns = run_.end_ns + after_end_ns;
      start_client(host++, role, settings);
    };
    for (uint32_t i = 0; i < settings_.writers; ++i) add(write_rows, true, 0);
    for (uint32_t i = 0; i < settings_.learners; ++i) add(learn, true, 2 * kSecond);
    for (uint32_t i = 0; i < settings_.fetchers; ++i) add(fetch, false, 0);
    add(publish, false, kSecond);
    for (uint32_t i = 0; i < settings_.watchers; ++i) add(watch, true, 70 * kSecond);
    for (uint32_t i = 0; i < settings_.viewers; ++i) add(view, false, 0);
  }

  // An actor comes, as a fault that stands for itself says, and goes as it says.
  void join(const Fault& life) {
    Random random(life.seed);
    const ClientSettings settings{.server = kAddress,
                                  .shard = life.host % settings_.shards,
                                  .timeout_ns = kSecond / 2 + random.below(2 * kSecond),
                                  .seed = random.bits(),
                                  .until_ns = world_.time_ns() + life.length_ns,
                                  .pause_ns = settings_.pause_ns};
    world_.mark("clients that joined");
    start_client(life.host, act, settings);
    if (life.amount == kLeaves) return;
    world_.at(settings.until_ns, [this, host = life.host] {
      Process& process = *clients_[host].process;
      if (process.dead || process.fibers.empty()) return;
      world_.mark("clients that died");
      world_.kill(process);
    });
  }

  void start_client(uint32_t host, ClientRole role, const ClientSettings& settings) {
    start_client(host, [this, role, settings] { role(run_, settings); });
  }
  void start_client(uint32_t host, std::function<void()> body) {
    auto process = world_.make_process("client", host);
    if (host < clients_.size()) clients_[host] = {process, body};
    ++at_work_;
    world_.start(process, [this, process, body = std::move(body)] {
      struct Ended {
        uint32_t& at_work;
        ~Ended() { --at_work; }
      } const ended{at_work_};
      try {
        body();
      } catch (const Error& error) {
        broken(std::string("a client ends by an error: ") + error.what());
      }
    });
  }

  void begin(const Fault& fault) {
    Process* process =
        fault.host == kServerHost ? server_->process.get() : clients_[fault.host].process.get();
    if (process == nullptr &&
        (fault.kind == FaultKind::client_crash || fault.kind == FaultKind::clock_jump)) {
      return;  // an actor's that has not come yet
    }
    switch (fault.kind) {
      case FaultKind::join:
        return join(fault);
      case FaultKind::server_crash:
        world_.mark("server crashes");
        crash_within(fault);
        return end_later(fault, server_->process, [this] { start_server(); });
      case FaultKind::power_loss:
        crash_within(fault);
        return end_later(fault, server_->process, [this] {
          disk_.lose_power();
          start_server();
        });
      case FaultKind::client_crash: {
        if (process->fibers.empty()) return;
        world_.mark("client crashes");
        world_.kill_within(*process, fault.amount);
        return end_later(fault, clients_[fault.host].process,
                         [this, host = fault.host] { start_client(host, clients_[host].body); });
      }
      case FaultKind::bit_rot:
        oracle_.disk_rots();
        run_.disk_rots = true;
        if (!server_up()) oracle_.server_dies();  // its next life reads what is left
        return disk_.begin(fault);
      case FaultKind::disk_full:
      case FaultKind::disk_errors:
        oracle_.disk_fails(world_.time_ns() + fault.length_ns);
        return disk_.begin(fault);
      case FaultKind::clock_jump:
        world_.mark("clocks that jump");
        return world_.jump_clock(*process, fault.amount);
      case FaultKind::wall_jump:
        world_.mark("wall clocks that jump");
        return world_.jump_wall(static_cast<int64_t>(fault.amount) - 3600);
      case FaultKind::new_address:
        return network_.change_address(fault.host);
      default:
        return network_.begin(fault);
    }
  }

  void crash_within(const Fault& fault) {
    if (fault.at_disk) {
      server_->process->disk_calls_left = fault.amount;
    } else {
      world_.kill_within(*server_->process, fault.amount);
    }
  }

  // It dies at one of its next steps, at the end of the fault's time or of all at the latest; and
  // starts anew once it has let go of what it held.
  void end_later(const Fault& fault, const std::shared_ptr<Process>& process,
                 std::function<void()> restart) {
    world_.at(std::min(world_.time_ns() + fault.length_ns, run_.end_ns),
              [this, process, restart = std::move(restart)] {
                world_.kill(*process);
                wait_for_end(process, restart);
              });
  }
  void wait_for_end(const std::shared_ptr<Process>& process, const std::function<void()>& restart) {
    const bool cleared = process != server_->process || server_->servers.empty();
    const bool newest = process == (process->host == kServerHost ? server_->process
                                                                 : clients_[process->host].process);
    if (!newest) return;  // an earlier fault has seen to it
    if (process->fibers.empty() && cleared) return restart();
    world_.at(world_.time_ns() + 1'000,
              [this, process, restart] { wait_for_end(process, restart); });
  }

  Settings settings_;
  World world_;
  Network network_;
  Disk disk_;
  Oracle oracle_;
  Run run_;
  Random random_;
  std::shared_ptr<ServerLife> server_;
  std::vector<ClientLife> clients_;  // by host
  uint32_t at_work_ = 0;
  std::string folder_ = kState;
  uint32_t folders_ = 1;
};

}  // namespace

// The process ends with the run: no order of taking it all down would be right for code that dies
// in the middle of what it does.
Outcome simulate(const Wanted& wanted) { return (new System(wanted))->run(); }

}  // namespace drlnet::sim
