// What the server knows of itself and what its clients reported.
#include "base/clock.h"
#include "server/reply.h"
#include "server/server.h"

namespace drlnet {
namespace {

// So that the readings of as many clients as there may be fit into one reply.
constexpr size_t kMaxReportReadings = 100, kMaxReportBytes = 64 * 1024;

}  // namespace

uint16_t Server::ping(Peer&, Slot& slot, std::span<const std::byte> body) {
  Writer(slot.bytes).raw(body);
  return 0;
}

void Server::read_metrics(Metrics& metrics) {
  metrics.set("server.uptime_s", static_cast<double>(now_ns() - started_ns_) / 1e9);
  metrics.set("server.polls", polls_);
  metrics.set("server.waits", waits_);
  metrics.set("server.memory_bytes", memory_used_);
  metrics.set("server.params_version", params_ ? params_->version : uint64_t{0});
  metrics.set("server.params_bytes", params_ ? uint64_t{params_->bytes.size()} : uint64_t{0});
  timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  metrics.set("server.cpu_s",
              static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) / 1e9);
  sessions_.read_metrics(metrics);
  for (const auto& table : tables_) {
    table->read_metrics("table." + table->spec().name + ".", metrics);
  }
  for (const Peer* peer : sessions_.peers()) {
    Metrics reported;
    if (peer->report.empty() || !decode(peer->report, reported)) continue;
    for (const auto& [name, value] : reported.list()) {
      std::visit(
          [&, &name = name](const auto& reading) {
            metrics.set("client." + peer->name + "." + name, reading);
          },
          value);
    }
  }
}

uint16_t Server::stats(Peer&, Slot& slot, std::span<const std::byte>) {
  Metrics metrics;
  read_metrics(metrics);
  encode(metrics, slot.bytes);
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
  peer.report.assign(body.begin(), body.end());
  return 0;
}

}  // namespace drlnet
