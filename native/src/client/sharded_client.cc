#include "client/sharded_client.h"

#include <algorithm>

#include "base/assert.h"
#include "base/world.h"
#include "client/sample_stream.h"

namespace drlnet {

ShardedClient::ShardedClient(const ClientOptions& options, const std::function<void()>& interrupt,
                             const std::function<bool()>& run_server)
    : options_(options), interrupt_(interrupt), in_process_(run_server != nullptr) {
  sessions_.push_back(std::make_unique<Client>(options, interrupt, run_server));
  if (run_server || options.first_shard_only) return;
  const uint32_t shards = first().shards();
  if (first().shard() != 0) {
    throw Error(Status::config,
                options.address + " is shard " + std::to_string(first().shard()) +
                    " of a server of " + std::to_string(shards),
                "pass the address that the server printed when it was ready");
  }
  if (shards == 1) return;
  const DirectoryReply found = find_shards();
  for (uint32_t shard = 1; shard < shards; ++shard) {
    ClientOptions other = options;
    other.address = address_told(options.address, found.shards[shard].address);
    std::unique_ptr<Client> made;
    try {
      if (!lost_->has(shard)) {
        made = std::make_unique<Client>(other, [this, shard, address = other.address] {
          if (interrupt_) interrupt_();
          if (is_lost(shard)) throw ShardLost(shard, address);
        });
      }
    } catch (const ShardLost&) {  // since we have asked
    }
    const auto& session = sessions_.emplace_back(std::move(made));
    if (!session) continue;
    if (session->shard() != shard || session->lineage() != first().lineage()) {
      throw Error(Status::transport,
                  other.address + " is not shard " + std::to_string(shard) + " of the server at " +
                      options.address,
                  "see that its shards' addresses lead to the same server");
    }
  }
}

DirectoryReply ShardedClient::find_shards() {
  constexpr uint64_t kAgainNs = 50'000'000;
  const Deadline deadline = deadline_in(options_.timeout_ns);
  for (;;) {
    DirectoryReply found = first().directory();
    if (found.shards.size() != first().shards()) {
      throw Error(Status::protocol, options_.address + ": its directory lacks shards",
                  "install the same drlnet on both sides");
    }
    const auto missing = std::ranges::find_if(
        found.shards, [](const ShardEntry& one) { return one.address.empty() && !one.lost; });
    if (missing == found.shards.end()) {
      for (size_t shard = 0; shard < found.shards.size(); ++shard) {
        if (found.shards[shard].lost) lost_->add(shard);
      }
      return found;
    }
    if (waking_ns() >= deadline) {
      throw Error(Status::transport,
                  "shard " + std::to_string(missing - found.shards.begin()) + " of the server at " +
                      options_.address + " has not come",
                  "start it on its host: drlnet serve --join " + options_.address);
    }
    sleep_until(now_ns() + kAgainNs);
    if (interrupt_) interrupt_();
  }
}

// Called while a session waits, some 20 times a second: most shards only take their time.
bool ShardedClient::is_lost(uint32_t shard) {
  constexpr uint64_t kAgainNs = 500'000'000;
  if (lost_->has(shard)) return true;
  const std::unique_lock lock(looking_, std::try_to_lock);
  const uint64_t now = now_ns();
  if (!lock || now < looked_ns_ + kAgainNs) return false;
  if (looked_ns_ != 0) {
    const DirectoryReply found = first().directory();
    for (size_t i = 0; i < found.shards.size() && i < 64; ++i) {
      if (found.shards[i].lost) lost_->add(i);
    }
  }
  looked_ns_ = now_ns();
  return lost_->has(shard);
}

void ShardedClient::require(uint32_t shard) {
  if (lost_->has(shard)) {
    throw ShardLost(shard, sessions_[shard] ? sessions_[shard]->address() : "its host");
  }
}

uint32_t ShardedClient::open_table(const TableSpec& spec) {
  if (alone()) return first().open_table(spec);
  std::vector<Client*> sessions;
  for (const auto& session : sessions_) sessions.push_back(session.get());
  auto opened = std::make_unique<ShardedTable>(std::move(sessions), spec, lost_);
  const std::lock_guard lock(mutex_);
  const uint32_t turn = opened->first_shard();
  tables_.push_back({spec.name, std::move(opened), turn});
  return static_cast<uint32_t>(tables_.size() - 1);
}

ShardedTable& ShardedClient::table(uint32_t number) {
  const std::lock_guard lock(mutex_);
  DRLNET_ASSERT(number < tables_.size());
  return *tables_[number].table;
}

uint32_t ShardedClient::number(uint32_t table, uint32_t shard) {
  return alone() ? table : this->table(table).number(shard);
}

void ShardedClient::empty_table(uint32_t table) {
  each_session([&](uint32_t shard, Client& session) { session.empty_table(number(table, shard)); });
}

void ShardedClient::drop_table(uint32_t table) {
  each_session([&](uint32_t shard, Client& session) { session.drop_table(number(table, shard)); });
}

// The shard of each new stream: each goes where the fewest are by then; where several have as few,
// it is the turn of one. Those of a shard stand together.
std::vector<uint32_t> ShardedClient::homes(uint32_t table, uint32_t streams) {
  if (alone()) return std::vector<uint32_t>(streams, 0);
  DirectoryRequest request;
  {
    const std::lock_guard lock(mutex_);
    DRLNET_ASSERT(table < tables_.size());
    request.tables.emplace_back().table = tables_[table].name;
  }
  const DirectoryReply found = first().directory(request);
  std::vector<uint64_t> counts(shards());
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    if (found.shards[shard].lost) lost_->add(shard);
    counts[shard] = lost_->has(shard) ? UINT64_MAX : found.shards[shard].streams;
  }
  std::vector<uint32_t> homes;
  const std::lock_guard lock(mutex_);
  uint32_t& turn = tables_[table].turn;
  for (uint32_t i = 0; i < streams; ++i) {
    uint32_t best = turn % shards();
    for (uint32_t j = 1; j < shards(); ++j) {
      const uint32_t other = (turn + j) % shards();
      if (counts[other] < counts[best]) best = other;
    }
    ++counts[best];
    homes.push_back(best);
    turn = (best + 1) % shards();
  }
  const uint32_t begin = homes.empty() ? 0 : homes.front();
  std::ranges::stable_sort(homes, {},
                           [&](uint32_t shard) { return (shard + shards() - begin) % shards(); });
  return homes;
}

std::unique_ptr<ShardedWriter> ShardedClient::writer(uint32_t table, const TableSpec& spec,
                                                     uint32_t streams,
                                                     const std::vector<Lease>& held,
                                                     WriterOptions options) {
  std::vector<uint32_t> where;
  for (const Lease& lease : held) where.push_back(lease.ordinal % shards());
  if (held.empty()) where = homes(table, streams);
  std::vector<ShardedWriter::Part> parts;
  try {
    for (uint32_t begin = 0, end = 0; begin < where.size(); begin = end) {
      const uint32_t home = where[begin];
      std::vector<StreamName> names;
      for (; end < where.size() && where[end] == home; ++end) {
        if (held.empty()) continue;
        names.push_back({held[end].ordinal / shards(), held[end].epoch, held[end].token});
      }
      require(home);
      Client& session = *sessions_[home];
      const uint32_t there = number(table, home);
      auto leases = held.empty() ? session.lease(there, end - begin) : session.resume(there, names);
      parts.push_back(
          {std::make_unique<StreamWriter>(session, there, spec, std::move(leases), options), home,
           begin, end - begin});
    }
  } catch (const Error&) {
    // New streams: all or none. Those to resume stay as they are.
    if (held.empty()) {
      for (const auto& part : parts) part.writer->release();
    }
    throw;
  }
  return std::make_unique<ShardedWriter>(std::move(parts), shards(), lost_, spec);
}

void ShardedClient::sample(uint32_t table, const BatchLayout& batch, std::span<std::byte> memory,
                           Deadline deadline) {
  if (!alone()) return this->table(table).sample(batch, memory, deadline);
  first().sample(table, batch.count(), batch.destination(memory), deadline);
}

std::unique_ptr<BatchStream> ShardedClient::stream(uint32_t table, const BatchLayout& batch,
                                                   std::vector<std::span<std::byte>> buffers) {
  if (!alone()) {
    return std::make_unique<ShardedStream>(this->table(table), batch, std::move(buffers));
  }
  std::vector<Destination> destinations;
  for (const auto& buffer : buffers) destinations.push_back(batch.destination(buffer));
  return std::make_unique<SampleStream>(first(), table, batch.count(), std::move(destinations));
}

std::unique_ptr<MirroredTable> ShardedClient::mirror(const TableSpec& spec, Rank rank,
                                                     const std::vector<bool>& apart) {
  if (in_process_) {
    throw Error(Status::config, "a mirror of a table whose server runs in the client's own thread",
                "use a server of its own, or let it send the rows: replay.rows = server");
  }
  for (uint32_t shard = 0; shard < shards(); ++shard) require(shard);
  std::vector<Client*> sessions;
  for (const auto& session : sessions_) sessions.push_back(session.get());
  const auto connect = [&](uint32_t shard, std::function<void()> interrupt) {
    ClientOptions options = options_;
    options.address = sessions_[shard]->address();
    options.name = "rows_" + options.name;
    if (options.poll == Poll::busy) options.poll = Poll::adaptive;  // it mostly waits
    return std::make_unique<Client>(options, std::move(interrupt));
  };
  return std::make_unique<MirroredTable>(std::move(sessions), spec, rank, connect, interrupt_,
                                         apart);
}

UpdateResult ShardedClient::update_priorities(uint32_t table, std::span<const uint64_t> keys,
                                              std::span<const float> priorities) {
  if (!alone()) return this->table(table).update_priorities(keys, priorities);
  return first().update_priorities(table, keys, priorities);
}

void ShardedClient::update_priorities_async(uint32_t table, std::span<const uint64_t> keys,
                                            std::span<const float> priorities) {
  if (!alone()) return this->table(table).update_priorities_async(keys, priorities);
  first().update_priorities_async(table, keys, priorities);
}

void ShardedClient::read_items(uint32_t table, uint32_t shard, const BatchLayout& batch,
                               std::span<const uint64_t> keys, std::span<std::byte> memory,
                               Deadline deadline) {
  DRLNET_ASSERT(shard < shards());
  require(shard);
  sessions_[shard]->read_items(number(table, shard), keys, batch.destination(memory), deadline);
}

bool ShardedClient::new_priorities(uint32_t table, uint32_t shard, PriorityChanges& changes) {
  DRLNET_ASSERT(shard < shards());
  require(shard);
  return sessions_[shard]->new_priorities(number(table, shard), changes);
}

void ShardedClient::set_timeout(uint64_t timeout_ns) {
  each_session([&](uint32_t, Client& session) { session.set_timeout(timeout_ns); });
}

void ShardedClient::report(const Metrics& metrics) {
  first().report(metrics);
  each_session([&](uint32_t shard, Client& session) {
    if (shard == 0) return;
    try {
      session.report({});
    } catch (const ShardLost&) {  // it needs none any more
    }
  });
}

std::vector<Metrics> ShardedClient::stats() {
  std::vector<Metrics> readings;
  each_session([&](uint32_t, Client& session) {
    try {
      readings.push_back(session.stats());
    } catch (const ShardLost&) {  // its figures are gone with it
    }
  });
  return readings;
}

std::vector<Metrics> ShardedClient::own_metrics() {
  std::vector<Metrics> readings;
  each_session([&](uint32_t, Client& session) { readings.push_back(session.own_metrics()); });
  return readings;
}

}  // namespace drlnet
