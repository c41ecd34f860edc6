// The client's calls, one after another as PROTOCOL.md lists them.
#include <algorithm>

#include "base/streaming_copy.h"
#include "base/world.h"
#include "client/client.h"
#include "wire/codec.h"

namespace drlnet {
namespace {

std::vector<Lease> read_leases(std::span<const std::byte> reply) {
  std::vector<Lease> leases(reply.size() / sizeof(Lease));
  std::memcpy(leases.data(), reply.data(), leases.size() * sizeof(Lease));
  return leases;
}

// Names per request: what fits into the largest one.
constexpr size_t kNames = (kMaxRequestBytes - sizeof(StreamRequest)) / sizeof(StreamName);

void fill_names(std::vector<std::byte>& body, uint32_t table, std::span<const StreamName> names) {
  ByteWriter writer(body);
  writer.put(StreamRequest{table, static_cast<uint32_t>(names.size())});
  writer.raw(std::as_bytes(names));
}

// Keys per request: what fits into the largest one.
constexpr size_t kUpdateKeys = (kMaxRequestBytes - sizeof(UpdateHeader)) / 12 / 2 * 2;

void fill_update(std::vector<std::byte>& body, uint32_t table, std::span<const uint64_t> keys,
                 std::span<const float> priorities) {
  ByteWriter writer(body);
  writer.put(UpdateHeader{table, static_cast<uint32_t>(keys.size())});
  writer.raw(std::as_bytes(keys));
  writer.raw(std::as_bytes(priorities));
}

}  // namespace

void check_update(std::span<const uint64_t> keys, std::span<const float> priorities) {
  if (keys.size() != priorities.size()) {
    throw Error(Status::config,
                std::to_string(keys.size()) + " keys and " + std::to_string(priorities.size()) +
                    " priorities",
                "send one priority for each key");
  }
  if (greatest_priority(priorities)) return;
  const auto at = std::ranges::find_if(
      priorities, [](const float& priority) { return !greatest_priority({&priority, 1}); });
  throw Error(Status::bad_priority,
              "priority " + std::to_string(at - priorities.begin()) + " of an update is " +
                  std::to_string(*at),
              "send finite priorities of 0 or more; none of this update was applied");
}

void Client::ping(std::span<const std::byte> payload) {
  call(Operation::ping, [&](auto& body) { ByteWriter(body).raw(payload); }, [](auto) {});
}

uint64_t Client::ping_ns(std::span<const std::byte> payload) {
  const uint64_t start = now_ns();
  ping(payload);
  return now_ns() - start;
}

OpenTableReply Client::open(const TableSpec& spec) {
  check(spec);
  OpenTableReply opened{};
  call(
      Operation::open_table, [&](auto& body) { encode(spec, body); },
      [&](auto reply) { opened = record_of<OpenTableReply>(reply); });
  return opened;
}

std::vector<TableSpec> Client::list_tables() {
  std::vector<TableSpec> specs;
  call(
      Operation::list_tables, [](auto&) {},
      [&](auto reply) {
        if (!decode(reply, specs)) {
          throw Error(Status::protocol, "the server's tables do not parse",
                      "install the same drlnet on both sides");
        }
      });
  return specs;
}

std::vector<Lease> Client::lease(uint32_t table, uint32_t count) {
  std::vector<Lease> leases;
  call(
      Operation::lease, [&](auto& body) { ByteWriter(body).put(LeaseRequest{table, count}); },
      [&](auto reply) { leases = read_leases(reply); });
  return leases;
}

std::vector<Lease> Client::resume(uint32_t table, std::span<const StreamName> names) {
  std::vector<Lease> leases;
  for (size_t at = 0; at < names.size(); at += kNames) {
    const auto part = names.subspan(at, std::min(kNames, names.size() - at));
    call(
        Operation::resume, [&](auto& body) { fill_names(body, table, part); },
        [&](auto reply) { std::ranges::copy(read_leases(reply), std::back_inserter(leases)); });
  }
  return leases;
}

void Client::release(uint32_t table, std::span<const StreamName> names) {
  for (size_t at = 0; at < names.size(); at += kNames) {
    const auto part = names.subspan(at, std::min(kNames, names.size() - at));
    call(Operation::release, [&](auto& body) { fill_names(body, table, part); }, [](auto) {});
  }
}

void Client::sample(uint32_t table, uint32_t batch, const Destination& destination,
                    Deadline deadline) {
  Lock lock = take_lock();
  const auto late = take_late_sample(table, batch);
  const CallId id =
      late ? *late
           : start(
                 lock, now_ns(), Operation::sample, deadline,
                 [&](auto& body) { ByteWriter(body).put(SampleRequest{table, batch}); },
                 destination);
  try {
    wait(lock, id, deadline);
  } catch (...) {
    if (!lock) lock.lock();  // the interruption comes without it
    keep_late_sample(table, batch, id);
    throw;
  }
  collect_items(lock, id, destination, deadline);
}

void Client::collect_items(Lock& lock, CallId id, const Destination& destination,
                           Deadline deadline) {
  collect(lock, id, deadline, [&](Status status, auto reply) {
    throw_if_refused(status, reply);
    if (reply.data() == destination.memory().data()) return;
    if (reply.size() != destination.reply_bytes()) {
      throw Error(Status::config,
                  "a sample of " + std::to_string(reply.size()) + " bytes into a buffer of " +
                      std::to_string(destination.reply_bytes()),
                  "give a buffer of the layout's total bytes");
    }
    destination.write(0, reply);
    streaming_fence();
  });
}

void Client::read_items(uint32_t table, std::span<const uint64_t> keys,
                        const Destination& destination, Deadline deadline) {
  if (keys.empty() || keys.size() > kMaxReadKeys) {
    throw Error(Status::config, std::to_string(keys.size()) + " keys in one request",
                "read from 1 to " + std::to_string(kMaxReadKeys) + " items at once");
  }
  Lock lock = take_lock();
  const CallId id = start(
      lock, now_ns(), Operation::read_items, deadline,
      [&](auto& body) {
        ByteWriter writer(body);
        writer.put(ReadHeader{table, static_cast<uint32_t>(keys.size())});
        writer.raw(std::as_bytes(keys));
      },
      destination);
  collect_items(lock, id, destination, deadline);
}

void Client::keep_late_sample(uint32_t table, uint32_t batch, CallId id) {
  constexpr size_t kMost = 8;  // kinds of samples that a caller may still come back for
  connection_.detach(id);
  late_samples_.push_back({table, batch, id});
  if (late_samples_.size() <= kMost) return;
  connection_.abandon(late_samples_.front().id);
  late_samples_.erase(late_samples_.begin());
}

std::optional<CallId> Client::take_late_sample(uint32_t table, uint32_t batch) {
  const auto late = std::ranges::find_if(late_samples_, [&](const LateSample& sample) {
    return sample.table == table && sample.batch == batch;
  });
  if (late == late_samples_.end()) return std::nullopt;
  const CallId id = late->id;
  late_samples_.erase(late);
  return id;
}

// The oldest update not looked at yet: a finished one, or, where the window is full and the
// caller would rather wait, any.
std::optional<CallId> Client::take_update(bool even_unfinished) {
  const Lock lock = take_lock();
  if (updates_.empty()) return std::nullopt;
  const bool full = updates_.size() >= kLaneWindow[static_cast<size_t>(Lane::update)];
  if (!connection_.done(updates_.front()) && !(even_unfinished && full)) return std::nullopt;
  const CallId id = updates_.front();
  updates_.erase(updates_.begin());
  return id;
}

UpdateResult Client::update_priorities(uint32_t table, std::span<const uint64_t> keys,
                                       std::span<const float> priorities) {
  check_update(keys, priorities);
  UpdateResult total{};
  for (size_t at = 0; at < keys.size(); at += kUpdateKeys) {
    const size_t n = std::min(kUpdateKeys, keys.size() - at);
    call(
        Operation::update_priorities,
        [&](auto& body) {
          fill_update(body, table, keys.subspan(at, n), priorities.subspan(at, n));
        },
        [&](auto reply) {
          const auto part = record_of<UpdateResult>(reply);
          total.applied += part.applied;
          total.stale += part.stale;
        });
  }
  return total;
}

void Client::update_priorities_async(uint32_t table, std::span<const uint64_t> keys,
                                     std::span<const float> priorities) {
  check_update(keys, priorities);
  const auto looked_at = [](Status status, auto reply) { throw_if_refused(status, reply); };
  while (const auto id = take_update(false)) collect(*id, deadline_in(0), looked_at);
  for (size_t at = 0; at < keys.size(); at += kUpdateKeys) {
    const size_t n = std::min(kUpdateKeys, keys.size() - at);
    const Deadline deadline = deadline_in(timeout_ns_);
    if (const auto id = take_update(true)) collect(*id, deadline, looked_at);
    const CallId id = start(Operation::update_priorities, deadline, [&](auto& body) {
      fill_update(body, table, keys.subspan(at, n), priorities.subspan(at, n));
    });
    const Lock lock = take_lock();
    updates_.push_back(id);
  }
}

bool Client::new_priorities(uint32_t table, PriorityChanges& changes) {
  bool more = false;
  call(
      Operation::new_priorities,
      [&](auto& body) { ByteWriter(body).put(ChangesRequest{table, kMaxChanges, changes.next}); },
      [&](auto reply) {
        ByteReader reader(reply);
        const auto header = reader.get<ChangesHeader>();
        const auto keys = reader.records<uint64_t>(header.count);
        const auto priorities = reader.records<float>(header.count);
        if (!reader.finished()) {
          throw Error(Status::protocol, "changed priorities do not parse",
                      "install the same drlnet on both sides");
        }
        changes.next = header.next;
        changes.oldest = header.oldest;
        changes.head = header.head;
        changes.keys.assign(keys.begin(), keys.end());
        changes.priorities.assign(priorities.begin(), priorities.end());
        more = header.more != 0;
      });
  return more;
}

uint64_t Client::put_blob(std::string_view name, std::span<const std::byte> blob) {
  // What fits into no request: the server says what it takes.
  if (name.size() + blob.size() > kMaxRequestBytes - 64) {
    throw Error(Status::config, "a blob of " + std::to_string(blob.size()) + " bytes",
                "keep at most 131072 bytes");
  }
  uint64_t version = 0;
  call(
      Operation::put_blob,
      [&](auto& body) {
        ByteWriter writer(body);
        writer.text(name);
        writer.put(static_cast<uint32_t>(blob.size()));
        writer.raw(blob);
      },
      [&](auto reply) { version = record_of<PutBlobReply>(reply).version; });
  return version;
}

uint64_t Client::get_blob(std::string_view name, uint64_t newer_than,
                          std::vector<std::byte>& bytes) {
  uint64_t version = 0;
  call(
      Operation::get_blob,
      [&](auto& body) {
        ByteWriter writer(body);
        writer.put(GetBlobRequest{newer_than});
        writer.text(name);
      },
      [&](auto reply) {
        const auto head = record_of<GetBlobReply>(reply);
        if (head.version <= newer_than) return;
        version = head.version;
        const auto blob = reply.subspan(sizeof head);
        bytes.assign(blob.begin(), blob.end());
      });
  return version;
}

DirectoryReply Client::directory(const DirectoryRequest& request) {
  DirectoryReply found;
  call(
      Operation::directory, [&](auto& body) { encode(request, body); },
      [&](auto reply) {
        if (!decode(reply, found)) {
          throw Error(Status::protocol, address() + ": its directory of shards does not parse",
                      "install the same drlnet on both sides");
        }
      });
  return found;
}

Metrics Client::stats() {
  Metrics metrics;
  call(
      Operation::stats, [](auto&) {},
      [&](auto reply) {
        if (!decode(reply, metrics)) {
          throw Error(Status::protocol, "the server's statistics do not parse",
                      "install the same drlnet on both sides");
        }
      });
  return metrics;
}

void Client::report(const Metrics& metrics) {
  Metrics report = own_metrics();
  const size_t own = report.list().size();
  report.add("", metrics);
  Bytes encoded;
  encode(report, encoded);
  // What the caller says comes first where not all has room: latencies may be spread so widely.
  if (encoded.size() > kMaxReportBytes || own + metrics.list().size() > kMaxReportReadings) {
    encoded.clear();
    encode(metrics, encoded);
  }
  call(Operation::report, [&](auto& body) { ByteWriter(body).raw(encoded); }, [](auto) {});
}

Metrics Client::own_metrics() {
  Lock lock = take_lock();
  Metrics metrics;
  connection_.read_metrics(metrics, now_ns());
  return metrics;
}

}  // namespace drlnet
