// What the server knows of itself and what its clients reported.
#include <algorithm>
#include <map>

#include "base/printable.h"
#include "base/world.h"
#include "server/reply.h"
#include "server/server.h"

namespace drlnet {
namespace {

// The same report with its texts as a terminal may show them.
Metrics shown(const Metrics& report) {
  Metrics metrics;
  for (const auto& [name, value] : report.list()) {
    const auto* text = std::get_if<std::string>(&value);
    metrics.set(printable(name), text != nullptr ? MetricValue(printable(*text)) : value);
  }
  return metrics;
}

}  // namespace

uint16_t Server::ping(Peer&, Slot& slot, std::span<const std::byte> body) {
  ByteWriter(slot.bytes).raw(body);
  return 0;
}

Metrics Server::read_metrics() {
  std::unique_lock lock(readers_mutex_);
  std::optional<Metrics> reading;
  readers_.push_back(&reading);
  if (looping_) {
    requests_.fetch_or(kRead, std::memory_order_relaxed);
    wake_fd_.wake();
    answered_.wait(lock, [&] { return reading.has_value(); });
  } else {
    answer_readers();
  }
  return std::move(*reading);
}

// Under readers_mutex_.
void Server::answer_readers() {
  // In this order: stop() first asks and then wakes.
  wake_fd_.clear();
  requests_.fetch_and(~uint32_t{kRead}, std::memory_order_relaxed);
  if (readers_.empty()) return;
  Metrics metrics;
  measure(metrics);
  for (std::optional<Metrics>* reader : readers_) *reader = metrics;
  readers_.clear();
  answered_.notify_all();
}

void Server::measure(Metrics& metrics) {
  const uint64_t now = now_ns();
  metrics.set("server.uptime_s", static_cast<double>(now - std::min(now, started_ns_)) / 1e9);
  metrics.set("server.version", version_);
  metrics.set("server.insecure", uint64_t{insecure_});
  metrics.set("server.polls", polls_);
  metrics.set("server.waits", waits_);
  metrics.set("server.cpu_s", process_cpu_s());
  metrics.set("server.resident_bytes", process_resident_bytes());
  metrics.set("server.memory_bytes", memory_used_);
  metrics.set("server.params_version", params_ ? params_->version : uint64_t{0});
  metrics.set("server.params_bytes", params_ ? uint64_t{params_->bytes.size()} : uint64_t{0});
  metrics.set("server.shards_lost", shards_ ? uint64_t{shards_->lost().size()} : 0);
  metrics.set("server.blobs", uint64_t{blobs_.count()});
  metrics.set("server.blob_bytes", blobs_.bytes());
  metrics.set("server.publishes_refused", publishes_refused_);
  metrics.set("server.publishers_replaced", publishers_replaced_);
  if (keeper_) {
    keeper_->read_metrics(metrics, now);
    metrics.set("state.rows_to_load", rows_to_load());
  }
  sessions_.read_metrics(metrics, now);
  for (const OpenTable& open : tables_) {
    open.table->read_metrics("table." + printable(open.asked.name) + ".", metrics, now);
  }
  questions_.read_metrics(metrics, now);
  size_t room = kMaxReportsBytes;
  uint64_t left_out = 0;
  for (const Peer* peer : sessions_.peers()) {
    const bool fits = peer->report_bytes <= room;
    left_out += !fits;
    if (!fits) continue;
    room -= peer->report_bytes;
    metrics.add("client." + peer->name + ".", peer->report);
  }
  metrics.set("server.reports_left_out", left_out);
  measure_latency(metrics);
}

// How long calls took as their callers saw it: what clients reported, put together.
void Server::measure_latency(Metrics& metrics) {
  std::vector<Latency> by_listener = ended_latency_;
  for (const Peer* peer : sessions_.peers()) {
    add_latency(peer->report, by_listener[peer->listener]);
  }
  std::map<std::string, Latency> scopes;
  for (size_t i = 0; i < by_listener.size(); ++i) {
    const std::string kind(sessions_.listeners()[i]->kind());
    for (const std::string& scope : {std::string("server."), "transport." + kind + "."}) {
      Latency& sum = scopes[scope];
      for (size_t op = 0; op < kOperations; ++op) sum[op] = sum[op].merged(by_listener[i][op]);
    }
  }
  for (const auto& [scope, latency] : scopes) {
    for (size_t op = 0; op < kOperations; ++op) {
      if (latency[op].count == 0) continue;
      metrics.set(scope + operation_name(static_cast<Operation>(op)) + ".latency", latency[op]);
    }
  }
}

void Server::add_latency(const Metrics& report, Latency& latency) {
  for (const auto& [name, value] : report.list()) {
    const auto* reading = std::get_if<HistogramReading>(&value);
    if (reading == nullptr) continue;
    for (size_t op = 0; op < kOperations; ++op) {
      if (name != std::string(operation_name(static_cast<Operation>(op))) + ".latency") continue;
      latency[op] = latency[op].merged(*reading);
    }
  }
}

// Forgets a client that is gone.
void Server::remember_report(const Peer& peer) {
  report_bytes_ -= peer.report_bytes;
  if (peer.report.list().empty()) return;
  Ended& ended = ended_.emplace_back(Ended{peer.client, peer.listener, {}, sizeof(Ended)});
  add_latency(peer.report, ended.latency);
  for (const HistogramReading& reading : ended.latency) {
    ended.bytes += reading.buckets.capacity() * sizeof reading.buckets[0];
  }
  ended_bytes_ += ended.bytes;
  add_latency(peer.report, ended_latency_[peer.listener]);
  while (!ended_.empty() && ended_bytes_ > sessions_.limits().report_bytes) {
    ended_bytes_ -= ended_.front().bytes;
    ended_.pop_front();
  }
}

// The client is back, and has reported again what it had. O(those that are remembered).
void Server::forget_report(uint64_t client) {
  const auto former = std::ranges::find(ended_, client, &Ended::client);
  if (former == ended_.end()) return;
  Latency& sum = ended_latency_[former->listener];
  for (size_t op = 0; op < kOperations; ++op) sum[op] = sum[op].since(former->latency[op]);
  ended_bytes_ -= former->bytes;
  ended_.erase(former);
}

uint16_t Server::stats(Peer&, Slot& slot, std::span<const std::byte>) {
  Metrics metrics;
  measure(metrics);
  encode(metrics, slot.bytes);
  slot.work = static_cast<uint32_t>(metrics.list().size() / 4);
  return 0;
}

uint16_t Server::report(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  Metrics metrics;
  if (!decode(body, metrics)) {
    return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  }
  if (metrics.list().size() > kMaxReportReadings || body.size() > kMaxReportBytes) {
    return refuse(slot, Status::config,
                  "a report of " + std::to_string(metrics.list().size()) + " readings in " +
                      std::to_string(body.size()) + " bytes",
                  "report at most " + std::to_string(kMaxReportReadings) + " readings in " +
                      std::to_string(kMaxReportBytes) + " bytes");
  }
  const uint64_t bytes = body.size() + metrics.list().size() * kReadingNameBytes;
  const uint64_t others = report_bytes_ - peer.report_bytes, most = sessions_.limits().report_bytes;
  if (others + bytes > most) {
    return refuse_beyond(Limit::report_bytes, slot,
                         "the reports of all clients take " + std::to_string(most) + " bytes",
                         "report less, or raise server.limits.report_bytes");
  }
  const bool first = peer.report_bytes == 0;
  report_bytes_ = others + bytes;
  peer.report_bytes = bytes;
  peer.report = shown(metrics);
  if (first) forget_report(peer.client);
  return 0;
}

}  // namespace drlnet
