#include "client/sharded_client.h"

#include "base/assert.h"
#include "client/sample_stream.h"

namespace drlnet {

ShardedClient::ShardedClient(const ClientOptions& options, const std::function<void()>& interrupt,
                             const std::function<bool()>& run_server)
    : options_(options), interrupt_(interrupt), in_process_(run_server != nullptr) {
  sessions_.push_back(std::make_unique<Client>(options, interrupt, run_server));
  if (run_server) return;
  const uint32_t shards = first().shards();
  if (first().shard() != 0) {
    throw Error(Status::config,
                options.address + " is shard " + std::to_string(first().shard()) +
                    " of a server of " + std::to_string(shards),
                "pass the address that the server printed when it was ready");
  }
  for (uint32_t shard = 1; shard < shards; ++shard) {
    ClientOptions other = options;
    other.address = shard_address(options.address, shard);
    const auto& session = sessions_.emplace_back(std::make_unique<Client>(other, interrupt));
    if (session->shard() != shard || session->lineage() != first().lineage()) {
      throw Error(Status::transport,
                  other.address + " is not shard " + std::to_string(shard) + " of the server at " +
                      options.address,
                  "see that its shards' addresses, next to its own, lead to the same server");
    }
  }
}

uint32_t ShardedClient::open_table(const TableSpec& spec) {
  if (alone()) return first().open_table(spec);
  std::vector<Client*> sessions;
  for (const auto& session : sessions_) sessions.push_back(session.get());
  auto opened = std::make_unique<ShardedTable>(std::move(sessions), spec);
  const std::lock_guard lock(mutex_);
  const uint32_t turn = opened->first_shard();
  tables_.push_back({std::move(opened), turn});
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
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    sessions_[shard]->empty_table(number(table, shard));
  }
}

void ShardedClient::drop_table(uint32_t table) {
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    sessions_[shard]->drop_table(number(table, shard));
  }
}

// The shard of each new stream: runs of equal length, or longer by one.
std::vector<uint32_t> ShardedClient::homes(uint32_t table, uint32_t streams) {
  if (alone()) return std::vector<uint32_t>(streams, 0);
  std::vector<uint32_t> homes;
  const std::lock_guard lock(mutex_);
  DRLNET_ASSERT(table < tables_.size());
  uint32_t& turn = tables_[table].turn;
  for (uint32_t i = 0; i < shards(); ++i) {
    const uint32_t run = streams / shards() + (i < streams % shards() ? 1 : 0);
    homes.insert(homes.end(), run, (turn + i) % shards());
  }
  turn = (turn + streams) % shards();
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
  return std::make_unique<ShardedWriter>(std::move(parts), shards(), spec);
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

std::unique_ptr<MirroredTable> ShardedClient::mirror(const TableSpec& spec, Rank rank) {
  if (in_process_) {
    throw Error(Status::config, "a mirror of a table whose server runs in the client's own thread",
                "use a server of its own, or let it send the rows: replay.rows = server");
  }
  std::vector<Client*> sessions;
  for (const auto& session : sessions_) sessions.push_back(session.get());
  const auto connect = [&](uint32_t shard, std::function<void()> interrupt) {
    ClientOptions options = options_;
    options.address = sessions_[shard]->address();
    options.name = "rows_" + options.name;
    if (options.poll == Poll::busy) options.poll = Poll::adaptive;  // it mostly waits
    return std::make_unique<Client>(options, std::move(interrupt));
  };
  return std::make_unique<MirroredTable>(std::move(sessions), spec, rank, connect, interrupt_);
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
  sessions_[shard]->read_items(number(table, shard), keys, batch.destination(memory), deadline);
}

bool ShardedClient::new_priorities(uint32_t table, uint32_t shard, PriorityChanges& changes) {
  DRLNET_ASSERT(shard < shards());
  return sessions_[shard]->new_priorities(number(table, shard), changes);
}

void ShardedClient::set_timeout(uint64_t timeout_ns) {
  for (const auto& session : sessions_) session->set_timeout(timeout_ns);
}

void ShardedClient::report(const Metrics& metrics) {
  first().report(metrics);
  for (uint32_t shard = 1; shard < shards(); ++shard) sessions_[shard]->report({});
}

std::vector<Metrics> ShardedClient::stats() {
  std::vector<Metrics> readings;
  for (const auto& session : sessions_) readings.push_back(session->stats());
  return readings;
}

std::vector<Metrics> ShardedClient::own_metrics() {
  std::vector<Metrics> readings;
  for (const auto& session : sessions_) readings.push_back(session->own_metrics());
  return readings;
}

}  // namespace drlnet
