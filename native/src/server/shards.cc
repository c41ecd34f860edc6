#include "server/shards.h"

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "base/world.h"
#include "server/server.h"
#include "server/tables.h"

namespace drlnet {
namespace {

// Behind a port that the kernel chose another program's may lie: then it chooses again.
constexpr int kAttempts = 16;

using Servers = std::vector<std::unique_ptr<Server>>;

// Behind the first one.
void add_others(ServerOptions options, Servers& servers) {
  const std::vector<std::string> wanted = options.listen, first = servers[0]->addresses();
  for (options.shard = 1; options.shard < options.shards->count(); ++options.shard) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      // What a listener calls itself may leave out how it was set up.
      const size_t settings = std::min(wanted[i].find(','), wanted[i].size());
      const bool told = first[i].find(',') != std::string::npos;
      options.listen[i] =
          shard_address(first[i] + (told ? "" : wanted[i].substr(settings)), options.shard);
    }
    servers.push_back(std::make_unique<Server>(options));
  }
}

}  // namespace

Shards::Shards(uint32_t count, uint64_t lineage) : lineage_(lineage), servers_(count) {
  if (count < 2 || count > LogicalTable::kMaxShards) {
    throw Error(Status::config, "a server of " + std::to_string(count) + " shards",
                "give it 1 to " + std::to_string(LogicalTable::kMaxShards));
  }
}

void Shards::join(uint32_t shard, Server& server) {
  const std::lock_guard lock(mutex_);
  servers_[shard] = &server;
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
  if (shard == 0) {
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
  // The logical table has the rest.
  spec.limiter = {.max_times_sampled = spec.limiter.max_times_sampled};
  return spec;
}

Servers make_shards(const ServerOptions& wanted, uint32_t count) {
  Servers servers;
  ServerOptions options = wanted;
  if (!wanted.state_folder.empty()) {
    options.state = std::make_shared<StateFolder>(wanted.state_folder, count, Server::epoch_now(),
                                                  wanted.read_state_only);
  }
  if (count == 1) {
    servers.push_back(std::make_unique<Server>(options));
    return servers;
  }
  for (int attempt = 1;; ++attempt) {
    options.shards =
        std::make_shared<Shards>(count, options.state ? options.state->lineage() : random_secret());
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

}  // namespace drlnet
