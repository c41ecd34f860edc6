#include "server/shards.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <exception>

#include "base/random.h"
#include "base/wake_fd.h"
#include "base/worker.h"
#include "base/world.h"
#include "server/reply.h"
#include "server/server.h"
#include "server/tables.h"

namespace drlnet {
namespace {

// Behind a port that the kernel chose another program's may lie: then it chooses again.
constexpr int kAttempts = 16;
// Between looks for clients while a state is read. They wait: no call of theirs is so short.
constexpr uint64_t kLookNs = 10'000'000;

using Servers = std::vector<std::unique_ptr<Server>>;

// Behind the first one.
void add_others(ServerOptions options, Servers& servers) {
  const std::vector<std::string> wanted = options.listen, first = servers[0]->addresses();
  for (uint32_t number = 1; number < options.shards->own(); ++number) {
    options.shard = options.shards->first() + number;
    for (size_t i = 0; i < wanted.size(); ++i) {
      // What a listener calls itself may leave out how it was set up.
      const size_t settings = std::min(wanted[i].find(','), wanted[i].size());
      const bool told = first[i].find(',') != std::string::npos;
      options.listen[i] =
          shard_address(first[i] + (told ? "" : wanted[i].substr(settings)), number);
    }
    servers.push_back(std::make_unique<Server>(options));
  }
}

Servers listening(ServerOptions& options, uint32_t count, uint32_t elsewhere) {
  Servers servers;
  if (count + elsewhere == 1) {
    servers.push_back(std::make_unique<Server>(options));
    return servers;
  }
  for (int attempt = 1;; ++attempt) {
    options.shards = std::make_shared<Shards>(
        count + elsewhere, count, options.state ? options.state->lineage() : random_secret());
    servers.push_back(std::make_unique<Server>(options));
    const bool chosen = servers[0]->addresses() != options.listen;
    try {
      add_others(options, servers);
      return servers;
    } catch (const Error& error) {
      if (error.status() != Status::transport || !chosen || attempt == kAttempts) throw;
    }
    servers.clear();
  }
}

std::string described(const ReadProgress& progress) {
  const bool large = progress.total() >= 1'000'000'000;
  const double unit = large ? 1e9 : 1e6;
  char text[96];
  std::snprintf(text, sizeof text, "reading its state: %.2f of %.2f %s",
                static_cast<double>(progress.bytes()) / unit,
                static_cast<double>(progress.total()) / unit, large ? "GB" : "MB");
  return text;
}

// In a thread of its own, while this one answers clients. False where on_loading gives it up.
bool recover_while_answering(const Servers& servers, const ServerOptions& options,
                             ReadProgress& progress, const OnLoading& on_loading) {
  WakeFd done;
  std::atomic<bool> ended{false};
  std::exception_ptr failure;
  bool wanted = true;
  {
    const Worker reading([&] {
      try {
        for (const auto& server : servers) server->recover(options, progress);
      } catch (...) {
        failure = std::current_exception();
      }
      ended.store(true);
      done.wake();
    });
    struct GiveUp {  // where on_loading throws, before the thread is waited for
      ReadProgress& progress;
      ~GiveUp() { progress.give_up(); }
    } const give_up{progress};
    while (!ended.load()) {  // once it is given up, too: a disk may be slow
      const std::string what = described(progress);
      for (const auto& server : servers) server->tell_loading(what);
      wanted &= on_loading(what);
      if (!wanted) progress.give_up();
      done.wait(now_ns() + kLookNs);
    }
  }
  if (wanted && failure) std::rethrow_exception(failure);
  return wanted;
}

// The first shard first: it makes the tables that the others have a part of.
bool recover(const Servers& servers, const ServerOptions& options, const OnLoading& on_loading) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < servers.size(); ++i) bytes += bytes_in(options.state->shard(i));
  ReadProgress progress(bytes);
  if (!on_loading) {
    for (const auto& server : servers) server->recover(options, progress);
    return true;
  }
  const bool all = recover_while_answering(servers, options, progress, on_loading);
  for (const auto& server : servers) server->tell_loading("");
  return all;
}

}  // namespace

Shards::Shards(uint32_t count, uint32_t own, uint64_t lineage)
    : lineage_(lineage), first_(0), own_(own), servers_(count), addresses_(count) {
  if (count < 2 || count > LogicalTable::kMaxShards) {
    throw Error(Status::config, "a server of " + std::to_string(count) + " shards",
                "give it 1 to " + std::to_string(LogicalTable::kMaxShards));
  }
}

Shards::Shards(const DirectoryReply& places, uint32_t own)
    : lineage_(places.lineage),
      first_(places.first),
      own_(own),
      servers_(places.shards.size()),
      addresses_(places.shards.size()) {
  if (first_ == 0 || first_ + own_ > count()) {
    throw Error(Status::protocol, "the directory gives no such places", kMalformedRemedy.data());
  }
}

void Shards::join(uint32_t shard, Server& server) {
  const std::lock_guard lock(mutex_);
  servers_[shard] = &server;
  addresses_[shard] = server.addresses();
}

void Shards::leave(uint32_t shard) {
  const std::lock_guard lock(mutex_);
  servers_[shard] = nullptr;
}

void Shards::wake(uint64_t shards) {
  const std::lock_guard lock(mutex_);
  for (; shards != 0; shards &= shards - 1) {
    Server* server = servers_[static_cast<size_t>(std::countr_zero(shards))];
    if (server != nullptr) server->retry();
  }
}

std::shared_ptr<LogicalTable> Shards::table(const TableSpec& spec, uint32_t shard) {
  const std::lock_guard lock(mutex_);
  if (shard == first_) {
    auto table = std::make_shared<LogicalTable>(spec.limiter, count(),
                                                [this](uint64_t shards) { wake(shards); });
    std::erase_if(tables_, [](const auto& one) { return one.second.table.expired(); });
    tables_[spec.name] = {spec, table};
    return table;
  }
  const auto shared = tables_.find(spec.name);
  auto table = shared != tables_.end() ? shared->second.table.lock() : nullptr;
  if (!table || table->has_ended()) throw dropped(spec.name);
  require_same(spec, shared->second.asked);
  return table;
}

TableSpec Shards::part(TableSpec spec, uint32_t shard) const {
  spec.capacity = shard_capacity(spec.capacity, count(), shard);
  spec.seed += shard * kSplitMixStep;
  // The logical table has the rest. A queue's ring has a batch in reserve, see ring_slots().
  const LimiterSpec& limiter = spec.limiter;
  spec.limiter = {.batch = limiter.batch, .max_times_sampled = limiter.max_times_sampled};
  return spec;
}

Servers make_shards_of(const DirectoryReply& places, const ServerOptions& wanted, uint32_t count) {
  ServerOptions options = wanted;
  options.shards = std::make_shared<Shards>(places, count);
  options.shard = places.first;
  Servers servers;
  servers.push_back(std::make_unique<Server>(options));
  add_others(options, servers);
  return servers;
}

Servers make_shards(const ServerOptions& wanted, uint32_t count, uint32_t elsewhere,
                    const OnLoading& on_loading) {
  ServerOptions options = wanted;
  if (!wanted.state_folder.empty()) {
    options.state = std::make_shared<StateFolder>(wanted.state_folder, count, Server::epoch_now(),
                                                  wanted.read_state_only);
  }
  Servers servers = listening(options, count, elsewhere);
  if (options.state && !recover(servers, options, on_loading)) servers.clear();
  return servers;
}

}  // namespace drlnet
