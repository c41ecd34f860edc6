#include "clients.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "calls.h"
#include "rows.h"
#include "settings.h"
#include "spec/sample_layout.h"

namespace drlnet::sim {
namespace {

// It has done its rounds, or its time has come.
bool over(const Run& run, const ClientSettings& settings, uint32_t round) {
  return settings.until_ns == 0 ? round >= settings.rounds
                                : run.world.time_ns() >= settings.until_ns;
}

std::vector<uint64_t> keys_of(const SampleLayout& layout, std::span<const std::byte> reply,
                              uint32_t count) {
  std::vector<uint64_t> keys(count);
  std::memcpy(keys.data(), reply.data() + layout.keys(count), 8 * count);
  return keys;
}

}  // namespace

void write_rows(Run& run, const ClientSettings& settings) {
  Rows rows(run, settings);
  run.writing.insert(settings.seed);
  persist(run, settings, "writer", [&](Session& session) { return rows.work(session); });
  run.writing.erase(settings.seed);
}

void learn(Run& run, const ClientSettings& settings) {
  Random random(settings.seed);
  const SampleLayout layout(run.spec);
  uint32_t round = 0;
  persist(run, settings, "learner", [&](Session& session) {
    Client& client = *session.client;
    const uint64_t lineage = client.lineage();
    uint64_t asked_ns = UINT64_MAX;  // the oldest of the samples that may be answered yet
    const auto wanted = [&] { return run.has_limiter() && !run.writing.empty(); };
    for (; wanted() || !over(run, settings, round); ++round) {
      const auto batch = 1 + static_cast<uint32_t>(random.below(kMostDraws));
      const uint64_t began_ns = std::min(asked_ns, run.world.time_ns());
      std::vector<std::byte> reply(layout.total_bytes(batch));
      try {
        timed(run, "sample", settings.timeout_ns, [&] {
          client.sample(session.table, batch, reply, deadline_in(settings.timeout_ns));
        });
      } catch (const Error& error) {
        // It may wait for rows that no writer sends any more.
        if (error.status() != Status::timeout && error.status() != Status::sample_expired) throw;
        expect(run, error);
        asked_ns = began_ns;
        if (run.has_limiter() && !wanted()) return true;
        round += 8;
        const uint64_t pause_ns = settings.pause_ns + (run.has_limiter() ? 20 * kMs : 0);
        if (pause_ns > 0) sleep_until(now_ns() + random.below(pause_ns));
        continue;
      }
      run.oracle.items(lineage, reply, batch, true);
      if (run.rows_to_load() > 0) run.world.mark("draws while rows are read");
      if (client.shards() == 1) run.oracle.counted(lineage, reply, began_ns);
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
      if (random.below(4) == 0 || settings.pause_ns > 0) {
        sleep_until(now_ns() + random.below(20 * kMs + settings.pause_ns));
      }
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
    std::vector<std::byte> bytes;
    for (; !over(run, settings, round); ++round) {
      const uint64_t number = ++run.publications;
      const bool is_blob = random.below(3) == 0;
      const std::string name = is_blob ? Oracle::blob_of(number) : Oracle::kParams;
      Oracle::fill_published(number, bytes);
      const uint64_t began_ns = run.world.time_ns();
      const uint64_t version = timed(run, "publish", settings.timeout_ns, [&] {
        return is_blob ? client.put_blob(name, bytes) : client.publish(bytes);
      });
      run.oracle.published(client.lineage(), name, version, number, began_ns);
      sleep_until(now_ns() + random.below(60 * kMs + 30 * settings.pause_ns));
    }
    return true;
  });
}

void fetch(Run& run, const ClientSettings& settings) {
  Random random(settings.seed);
  uint32_t round = 0;
  persist(run, settings, "actor", [&](Session& session) {
    Client& client = *session.client;
    std::map<std::string, uint64_t> versions;
    for (; round < settings.rounds; ++round) {
      const std::string name =
          random.below(2) == 0 ? Oracle::kParams : Oracle::blob_of(random.below(3));
      versions[name] = fetch_newer(run, settings, client, versions[name], name);
      overreach(run, client, Role::actor, random);
      sleep_until(now_ns() + random.below(40 * kMs));
    }
    return true;
  });
}

void view(Run& run, const ClientSettings& settings) {
  Random random(settings.seed);
  uint32_t round = 0;
  persist(run, settings, "viewer", [&](Session& session) {
    for (; round < settings.rounds; ++round) {
      if (random.below(8) == 0) {
        timed(run, "stats", settings.timeout_ns, [&] { session.client->stats(); });
      }
      overreach(run, *session.client, Role::viewer, random);
      if (random.below(32) == 0) intrude(run, settings.server, settings.timeout_ns, random);
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
  if (settings.shard == 0) {
    for (const std::string& name :
         {std::string(Oracle::kParams), Oracle::blob_of(0), Oracle::blob_of(1)}) {
      fetch_newer(run, settings, client, 0, name);
    }
  }
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
