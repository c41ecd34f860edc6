#include "scenario.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/assert.h"
#include "clients.h"
#include "network.h"
#include "server/server.h"

namespace drlnet::sim {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kSpanNs = 3 * kSecond;    // in which faults begin
constexpr uint64_t kLiveNs = 100 * kSecond;  // after which all must have come to their ends
constexpr const char* kAddress = "sim://server";
constexpr uint32_t kServerHost = 0;

struct Settings {
  uint32_t shards, writers, learners, fetchers;
  size_t frame_bytes;
  TableSpec spec;

  uint32_t hosts() const { return 1 + writers + learners + fetchers + 1; }
};

Settings draw_settings(uint64_t seed) {
  Random random(seed ^ 0x5E771465);
  Settings settings{};
  settings.shards = random.below(3) == 0 ? 2 : 1;
  settings.writers = 1 + static_cast<uint32_t>(random.below(3));
  settings.learners = 1 + static_cast<uint32_t>(random.below(2));
  settings.fetchers = 1 + static_cast<uint32_t>(random.below(2));
  constexpr size_t kFrames[] = {1472, kJumboFrameBytes, kMaxFrameBytes};
  settings.frame_bytes = kFrames[random.below(std::size(kFrames))];
  TableSpec& spec = settings.spec;
  spec.name = "replay";
  spec.capacity = random.below(4) == 0 ? 128 : 4096;
  constexpr uint32_t kPayloads[] = {8, 200, 3000};
  spec.columns = {{"name", DataType::u64, {2}},
                  {"payload", DataType::u8, {kPayloads[random.below(std::size(kPayloads))]}}};
  spec.item.views = {{"name", 0, 0, 0}, {"payload", 1, 0, 0}};
  spec.sampler.priority_exponent = 1;
  spec.seed = random.bits();
  return settings;
}

class System {
 public:
  explicit System(const Wanted& wanted)
      : settings_(draw_settings(wanted.seed)),
        world_(wanted.seed),
        network_(world_, wanted.seed ^ 0x4E47, settings_.frame_bytes, wanted.checked),
        oracle_(settings_.spec),
        run_{world_, oracle_, settings_.spec, world_.time_ns() + kSpanNs},
        random_(wanted.seed ^ 0xC11E) {
    world_.trace = wanted.trace;
    clients_.resize(settings_.hosts());
    start_server();
    start_clients();
    const std::vector<Fault> faults = faults_of(wanted.seed);
    for (size_t i = 0; i < faults.size(); ++i) {
      if (wanted.only && !wanted.only->contains(i)) continue;
      world_.at(world_.time_ns() + faults[i].begin_ns, [this, fault = faults[i]] { begin(fault); });
    }
  }

  Outcome run() {
    const uint64_t began = world_.time_ns();
    world_.run(run_.end_ns, [] { return false; });
    network_.heal();
    world_.note("healed");
    world_.run(run_.end_ns + kLiveNs, [&] { return at_work_ == 0 && server_up(); });
    if (at_work_ > 0 || !server_up()) {
      broken("the system works again once the network does: " + std::to_string(at_work_) +
             " clients did not come to their ends");
    }
    for (uint32_t shard = 0; shard < settings_.shards; ++shard) {
      start_client(settings_.hosts() + shard,
                   [this, shard] { verify(run_, settings_of(shard, 5 * kSecond)); });
    }
    world_.run(world_.time_ns() + kLiveNs, [&] { return at_work_ == 0; });
    if (at_work_ > 0) broken("what is stored can be read once the network works");
    oracle_.complete(run_.lineage, settings_.spec.capacity / settings_.shards);
    server_->kill(world_);
    world_.run(world_.time_ns() + kSecond, [&] { return server_->process->fibers == 0; });
    return {world_.hash(), world_.events(), network_.frames(),
            static_cast<double>(world_.time_ns() - began) / 1e9, world_.marks()};
  }

 private:
  // One start of the server.
  struct ServerLife {
    std::shared_ptr<Process> process;
    std::vector<std::unique_ptr<Server>> servers;
    void kill(World& world) { world.kill(*process); }
  };
  struct ClientLife {
    std::shared_ptr<Process> process;
    std::function<void()> body;
  };

  bool server_up() const { return server_ && !server_->process->dead && !server_->servers.empty(); }

  void start_server() {
    auto life = std::make_shared<ServerLife>();
    server_ = life;
    life->process = world_.make_process("server", kServerHost);
    world_.note("server starts");
    world_.start(life->process, [this, life] {
      ServerOptions options{{kAddress}, Poll::block, uint64_t{64} << 20};
      life->servers = make_shards(options, settings_.shards);
      for (uint32_t shard = 1; shard < settings_.shards; ++shard) {
        world_.start(life->process, [life, shard] { life->servers[shard]->run(); });
      }
      try {
        life->servers[0]->run();
      } catch (const Killed&) {
      }
      // Once the others have unwound, too.
      world_.at(world_.time_ns(), [this, life] { clear(life); });
    });
  }

  void clear(const std::shared_ptr<ServerLife>& life) {
    if (life->process->fibers > 0) {
      return world_.at(world_.time_ns() + 1, [this, life] { clear(life); });
    }
    life->servers.clear();
  }

  ClientSettings settings_of(uint32_t shard, uint64_t timeout_ns) {
    return {kAddress, shard, timeout_ns, 20 + static_cast<uint32_t>(random_.below(120)),
            random_.bits()};
  }

  void start_clients() {
    uint32_t host = 1;
    const auto add = [&](auto role, bool sharded) {
      const uint32_t shard = sharded ? host % settings_.shards : 0;
      const uint64_t timeout_ns = kSecond / 5 + random_.below(2 * kSecond);
      const ClientSettings settings = settings_of(shard, timeout_ns);
      start_client(host++, [this, role, settings] { role(run_, settings); });
    };
    for (uint32_t i = 0; i < settings_.writers; ++i) add(write_rows, true);
    for (uint32_t i = 0; i < settings_.learners; ++i) add(learn, true);
    for (uint32_t i = 0; i < settings_.fetchers; ++i) add(fetch, false);
    add(publish, false);
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
    switch (fault.kind) {
      case FaultKind::server_crash:
        world_.mark("server crashes");
        world_.kill_within(*server_->process, fault.amount);
        return end_later(fault, server_->process, [this] { start_server(); });
      case FaultKind::client_crash: {
        if (process->fibers == 0) return;
        world_.mark("client crashes");
        world_.kill_within(*process, fault.amount);
        return end_later(fault, clients_[fault.host].process,
                         [this, host = fault.host] { start_client(host, clients_[host].body); });
      }
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
    const bool newest =
        process == server_->process || std::ranges::any_of(clients_, [&](const ClientLife& life) {
          return life.process == process;
        });
    if (!newest) return;  // an earlier fault has seen to it
    if (process->fibers == 0 && cleared) return restart();
    world_.at(world_.time_ns() + 1'000,
              [this, process, restart] { wait_for_end(process, restart); });
  }

  Settings settings_;
  World world_;
  Network network_;
  Oracle oracle_;
  Run run_;
  Random random_;
  std::shared_ptr<ServerLife> server_;
  std::vector<ClientLife> clients_;  // by host
  uint32_t at_work_ = 0;
};

}  // namespace

std::vector<Fault> faults_of(uint64_t seed) {
  return draw_faults(seed ^ 0xFA17, draw_settings(seed).hosts(), kSpanNs);
}

// The process ends with the run: no order of taking it all down would be right for code that dies
// in the middle of what it does.
Outcome simulate(const Wanted& wanted) { return (new System(wanted))->run(); }

}  // namespace drlnet::sim
