#include "rows.h"

#include <utility>

namespace drlnet::sim {

bool Rows::work(Session& session) {
  StreamWriter writer = begin(session);
  for (; round_ < settings_.rounds; ++round_) {
    append(writer);
    overreach(run_, *session.client, Role::actor, random_);
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

bool Rows::act(Session& session) {
  const auto over = [&] { return run_.world.time_ns() >= settings_.until_ns; };
  const bool holds = !leases_.empty() && session.client->lineage() == lineage_;
  if (over() && !holds) return true;
  StreamWriter writer = begin(session);
  for (; !over(); ++round_) {
    append(writer);
    if (random_.below(8) == 0) flush(writer);
    if (random_.below(16) == 0 && settings_.shard == 0) {
      params_version_ = fetch_newer(run_, settings_, *session.client, params_version_);
    }
    sleep_until(now_ns() + random_.below(2 * settings_.pause_ns));
  }
  flush(writer);
  leave(session, writer);
  return true;
}

StreamWriter Rows::begin(Session& session) {
  take_streams(session);
  since_ns_ = 0;
  return {*session.client,
          session.table,
          run_.spec,
          leases_,
          {.flush_rows = 1 + static_cast<uint32_t>(random_.below(32)),
           .timeout_ns = settings_.timeout_ns}};
}

void Rows::take_streams(Session& session) {
  Client& client = *session.client;
  if (!leases_.empty() && client.lineage() == lineage_ && resume(session)) return;
  lineage_ = client.lineage();
  params_version_ = 0;
  const auto streams = 1 + static_cast<uint32_t>(random_.below(3));
  const uint64_t began_ns = run_.world.time_ns();
  leases_ = timed(run_, "lease", settings_.timeout_ns,
                  [&] { return client.lease(session.table, streams); });
  for (const Lease& lease : leases_) {
    run_.oracle.leased(lineage_, settings_.shard, lease, began_ns);
  }
}

bool Rows::resume(Session& session) {
  std::vector<StreamName> names;
  for (const Lease& one : leases_) names.push_back({one.ordinal, one.epoch, one.token});
  const uint64_t began_ns = run_.world.time_ns();
  try {
    const auto resumed = timed(run_, "resume", settings_.timeout_ns,
                               [&] { return session.client->resume(session.table, names); });
    for (size_t i = 0; i < resumed.size(); ++i) {
      run_.oracle.resumed(lineage_, resumed[i], began_ns);
      run_.world.mark("streams resumed");
      if (resumed[i].next_step < leases_[i].next_step) {
        run_.world.mark("streams resumed with rows not stored");
      }
    }
    leases_ = resumed;
    return true;
  } catch (const Error& error) {
    if (error.status() != Status::unknown_lease) throw;
    expect(run_, error);
    leases_.clear();
    return false;
  }
}

void Rows::append(StreamWriter& writer) {
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
    if (is_anchor(run_.spec.item, names[s].step)) {
      indices.push_back(static_cast<int64_t>(s));
      item_steps.push_back(static_cast<int64_t>(names[s].step));
      priorities.push_back(Oracle::initial_priority(names[s]));
    }
    run_.oracle.sent(names[s].token, ++leases_[s].next_step);
  }
  if (since_ns_ == 0) since_ns_ = run_.world.time_ns();
  const std::byte* columns[] = {reinterpret_cast<const std::byte*>(names.data()), payloads.data()};
  timed(run_, "append", settings_.timeout_ns * 9, [&] {
    writer.append(columns, first, last, {}, steps);
    if (!indices.empty()) writer.add_items(indices, item_steps, priorities);
  });
}

// Each of the appends under way has a deadline of its own.
void Rows::flush(StreamWriter& writer) {
  timed(run_, "flush", settings_.timeout_ns * 9, [&] { writer.flush(); });
  const uint64_t began_ns = std::exchange(since_ns_, 0);
  if (began_ns == 0) return;  // nothing new: no answer came
  for (const Lease& lease : leases_) {
    run_.oracle.acknowledged(lease.token, lease.next_step, began_ns);
  }
}

// With leases that the server may have ended though its answer is lost: the next session tells.
void Rows::leave(Session& session, StreamWriter& writer) {
  for (const Lease& lease : leases_) run_.oracle.releasing(lease.token);
  timed(run_, "release", settings_.timeout_ns, [&] { writer.release(); });
  for (const Lease& lease : leases_) run_.oracle.released(lease.token);
  leases_.clear();
  Metrics metrics;
  metrics.set("rounds", uint64_t{round_});
  timed(run_, "report", settings_.timeout_ns, [&] { session.client->report(metrics); });
  run_.world.mark("clients that left in order");
}

}  // namespace drlnet::sim
