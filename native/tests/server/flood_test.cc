// A client that means harm takes a bounded share, and the others go on.
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <optional>

#include "base/random.h"
#include "client/bench.h"
#include "session/seal.h"
#include "wire/frame.h"

namespace drlnet::test {
namespace {

// A source port from which any frame goes out, its checksum made right.
class Port {
 public:
  explicit Port(const std::string& address) : connected_(connect(address)) {}

  void send(FrameHeader header, std::span<const std::byte> payload, size_t bytes = 0) {
    const std::span<TxFrame> frame = connected_.transport->reserve(1);
    frame[0].to = connected_.server;
    frame[0].length = static_cast<uint32_t>(std::max(kHeaderBytes + payload.size(), bytes));
    std::memset(frame[0].data, 0, frame[0].length);
    write_header(frame[0].data, header);
    if (!payload.empty()) {
      std::memcpy(frame[0].data + kHeaderBytes, payload.data(), payload.size());
    }
    seal(frame[0]);
    connected_.transport->send_burst(frame);
  }
  void hello(uint64_t client, uint64_t nonce) {
    FrameHeader header;
    header.kind = FrameKind::hello;
    header.length = sizeof(Hello);
    Hello hello;
    hello.client = client;
    hello.nonce = nonce;
    std::memcpy(hello.name, "stranger", 8);
    send(header, std::as_bytes(std::span(&hello, 1)), kMinFrameBytes);
  }
  // Frames that have come, the last of that kind.
  std::optional<FrameHeader> received(FrameKind kind) {
    std::optional<FrameHeader> found;
    for (const RxFrame& frame : connected_.transport->recv_burst()) {
      FrameHeader header;
      if (!parse_frame(frame.data, header) && header.kind == kind) found = header;
    }
    return found;
  }
  uint32_t open(uint64_t client, uint64_t nonce) {
    std::optional<FrameHeader> welcome;
    run_until([&] { return (welcome = received(FrameKind::welcome)).has_value(); },
              [&] { hello(client, nonce); });
    return welcome->connection;
  }
  // One fragment of a request.
  void request(uint32_t connection, Operation operation, uint64_t number, uint32_t total,
               uint32_t offset, std::span<const std::byte> part) {
    FrameHeader header;
    header.kind = FrameKind::request;
    header.connection = connection;
    header.lane = lane_of(operation);
    header.operation = operation;
    header.frame_bytes = kMinFrameBytes;
    header.request = number;
    header.total_bytes = total;
    header.offset = offset;
    header.length = static_cast<uint32_t>(part.size());
    send(header, part);
  }

 private:
  Connected connected_;
};

constexpr uint32_t kPart = kMinFrameBytes - kHeaderBytes;

// Everything that needs no secret, again and again.
void attack(const std::string& address, const std::atomic<bool>& stop) {
  Random random(7);
  std::vector<std::unique_ptr<Port>> ports;
  for (int i = 0; i < 32; ++i) ports.push_back(std::make_unique<Port>(address));
  std::vector<uint32_t> sessions;
  for (auto& port : ports) sessions.push_back(port->open(random.bits(), random.bits()));
  std::vector<std::byte> bytes(kPart);
  while (!stop) {
    for (std::byte& one : bytes) one = static_cast<std::byte>(random.bits());
    const size_t at = random.bits() % ports.size();
    Port& port = *ports[at];
    FrameHeader garbage;
    std::memcpy(&garbage, bytes.data(), sizeof garbage);
    port.send(garbage, bytes);  // with the magic number, or not
    garbage.magic = kMagic;
    garbage.version = kVersion;
    garbage.connection = sessions[at];
    garbage.length = kPart;
    port.send(garbage, bytes);
    for (int i = 0; i < 8; ++i) port.hello(random.bits(), random.bits());
    // The last part of a long request, in each place of each lane: it stays without the others.
    const uint32_t last = 60 * kPart;
    const uint64_t number = 1 + random.bits() % 8;
    port.request(sessions[at], Operation::append, number, last + kPart, last, bytes);
    port.request(sessions[at], Operation::update_priorities, number, last + kPart, last, bytes);
    port.request(sessions[at], Operation::stats, 1, 0, 0, {});  // valid; most of them late
    FrameHeader replayed;  // what ends a session of ours, which comes back
    if (random.bits() % 64 == 0) {
      replayed.kind = FrameKind::bye;
      replayed.connection = sessions[at];
      port.send(replayed, {});
    }
    if (port.received(FrameKind::reset) || replayed.kind == FrameKind::bye) {
      sessions[at] = port.open(random.bits(), random.bits());
    }
  }
}

}  // namespace

TEST_CASE("a flood of garbage, hellos, parts of requests and valid ones takes a bounded share") {
  Limits limits;
  limits.request_bytes = 8 << 20;
  limits.half_open = 64;
  RunningServer server("udp://127.0.0.1:0", limits);
  Client honest(options_of(server));
  const TableSpec spec = spec_of(2000);
  const uint32_t table = honest.open_table(spec);
  StreamWriter writer(honest, table, spec, honest.lease(table, 2), {});
  write(writer, 2, 0, 5 * kSteps);
  writer.flush();
  [[maybe_unused]] const uint64_t before = metric(honest, "server.resident_bytes");
  std::atomic<bool> stop = false;
  std::thread attacker([&] { attack(server.address(), stop); });
  const SampleLayout layout(spec);
  std::vector<std::byte> reply(layout.total_bytes(64));
  uint64_t rounds = 5;
  const auto refused = [&](const char* limit) {
    return metric(honest, std::string("server.refused.") + limit);
  };
  const uint64_t deadline = now_ns() + kPatienceNs;
  while (rounds < 60 || refused("half_open") < 2000 || refused("request_bytes") < 3) {
    REQUIRE(now_ns() < deadline);
    write(writer, 2, rounds * kSteps, (rounds + 1) * kSteps);
    ++rounds;
    writer.flush();
    honest.sample(table, 64, reply, deadline_in(kPatienceNs));
    check_sample(spec, reply, 64);
    CHECK(metric(honest, "server.request_bytes") <= limits.request_bytes + (1 << 20));
    CHECK(metric(honest, "server.half_open") <= limits.half_open);
  }
#ifndef __SANITIZE_ADDRESS__  // which keeps what was freed for a while
  CHECK(metric(honest, "server.resident_bytes") < before + (64 << 20));
#endif
  CHECK(writer.rows_stored() == 2 * rounds * kSteps);
  stop = true;
  attacker.join();
}

TEST_CASE("garbage from 2,000 ports takes no memory, and requests are answered between it") {
  RunningServer server;
  Client honest(options_of(server));
  honest.ping_ns();
  [[maybe_unused]] const uint64_t before = metric(honest, "server.resident_bytes");
  Random random(9);
  std::vector<std::byte> bytes(kPart);
  uint64_t answered = 0;
  for (int i = 0; i < 2000; ++i) {
    Port port(server.address());  // of its own: the former one is bound no more
    for (std::byte& one : bytes) one = static_cast<std::byte>(random.bits());
    FrameHeader garbage;
    std::memcpy(&garbage, bytes.data(), sizeof garbage);
    port.send(garbage, bytes);
    garbage = {};
    garbage.kind = FrameKind::request;
    garbage.connection = static_cast<uint32_t>(random.bits());
    garbage.frame_bytes = kMinFrameBytes;
    garbage.total_bytes = garbage.length = kPart;
    port.send(garbage, bytes);  // right but for the session, which there is not
    if (i % 20 != 0) continue;
    honest.ping_ns();
    ++answered;
  }
  CHECK(answered == 100);
  CHECK(metric(honest, "server.drops.session") > 0);
  CHECK(metric(honest, "server.drops.magic") > 0);
  CHECK(metric(honest, "server.half_open") == 0);
  CHECK(metric(honest, "server.clients") == 1);
  CHECK(metric(honest, "server.request_bytes") == 0);
#ifndef __SANITIZE_ADDRESS__
  CHECK(metric(honest, "server.resident_bytes") < before + (8 << 20));
#endif
}

TEST_CASE("a stranger's copy of a hello does not end its client's session") {
  RunningServer server;
  Port client(server.address()), stranger(server.address());
  const uint32_t connection = client.open(5, 1);
  const auto ping = [&](Port& port, uint32_t session, uint64_t number) {
    std::optional<FrameHeader> answer;
    run_until([&] { return (answer = port.received(FrameKind::response)).has_value(); },
              [&] { port.request(session, Operation::ping, number, 0, 0, {}); });
    CHECK(answer->connection == session);
  };
  ping(client, connection, 1);
  const uint32_t other = stranger.open(5, 1), another = stranger.open(5, 2);
  CHECK(other != connection);
  CHECK(another != connection);
  ping(client, connection, 2);
  ping(stranger, another, 1);  // the client itself, say, from a new address: now it takes its place
  client.request(connection, Operation::ping, 3, 0, 0, {});
  std::optional<FrameHeader> reset;
  run_until([&] { return (reset = client.received(FrameKind::reset)).has_value(); }, [] {});
}

TEST_CASE("references that take more than a reply are refused, however little their views show") {
  RunningServer server;
  Client client(options_of(server));
  TableSpec spec = spec_of(300'000);
  spec.item.views = {{"first", 1, -65'536, -65'536, Pad::repeat, Align::anchor},
                     {"last", 1, 65'536, 65'536, Pad::repeat, Align::anchor}};
  const SampleRequest request{client.open_table(spec), kMaxBatch, 0, kReferences};
  const CallId id =
      client.start(Operation::sample, deadline_in(kPatienceNs),
                   [&](std::vector<std::byte>& body) { ByteWriter(body).put(request); });
  client.collect(id, deadline_in(kPatienceNs), [&](Status status, auto reply) {
    std::string cause, remedy;
    REQUIRE(status == Status::config);
    REQUIRE(decode_error(reply, cause, remedy));
    CHECK(cause == "a batch of over 2 GiB");
  });
}

TEST_CASE("where the machine has no memory to note changes, one client is told and others go on") {
  RunningServer server;
  Client client(options_of(server));
  const uint32_t table = client.open_table(spec_of(4'000'000));  // 64 MiB for its changes
  const uint64_t before = metric(client, "server.memory_bytes");
  PriorityChanges changes;
  const auto ask = [&] { client.new_priorities(table, changes); };
  {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit former{};
    getrlimit(RLIMIT_AS, &former);
    const rlim_t room = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (32 << 20);
    const rlimit less{room, former.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &less) == 0);
    const Error error = error_of(ask);
    setrlimit(RLIMIT_AS, &former);
    CHECK(error.status() == Status::server_full);
  }
  CHECK(metric(client, "server.memory_bytes") == before);
  ask();
  CHECK(metric(client, "server.memory_bytes") > before);
}

TEST_CASE("versions of params that clients had once take no memory") {
  RunningServer server;
  Client client(options_of(server));
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<std::byte> params(kBytes), found;
  client.publish(params);
  for (int i = 0; i < 8; ++i) CHECK(client.fetch(0, found) == 1);  // each place in its lane
  [[maybe_unused]] const uint64_t with_one = metric(client, "server.resident_bytes");
  CHECK(client.publish(params) == 2);
#ifndef __SANITIZE_ADDRESS__  // which keeps what was freed for a while
  CHECK(metric(client, "server.resident_bytes") < with_one + kBytes / 2);
#endif
}

}  // namespace drlnet::test
