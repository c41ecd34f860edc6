// Arbitrary frames into a live server: it neither stops nor forgets its other clients.
#include "server/server.h"

#include "base/assert.h"
#include "client/client.h"
#include "fuzz.h"
#include "raw_session.h"
#include "server/shards.h"

namespace drlnet::fuzz {
namespace {

Bytes body_of(auto... fields) {
  Bytes body;
  ByteWriter writer(body);
  (writer.put(fields), ...);
  return body;
}

// What a client does from its first to its last request, one frame after another.
Bytes whole_session() {
  uint64_t control = 0;
  Bytes input, spec, report;
  const auto add = [&](Operation operation, uint64_t request, std::span<const std::byte> body) {
    add_frame(input, request_frame(operation, request, body), kFixHeader | kFixLength);
  };
  encode(small_table(), spec);
  Metrics metrics;
  metrics.set("env_steps", uint64_t{5});
  Histogram latency;
  for (uint64_t ns = 1; ns < 1'000'000; ns *= 7) latency.record(ns);
  metrics.set("ping.latency", latency);
  encode(metrics, report);
  add(Operation::ping, ++control, Bytes(30));
  add(Operation::open_table, ++control, spec);
  add(Operation::lease, ++control, body_of(LeaseRequest{0, 2}));
  add(Operation::append, 1, append_body(0, 0, 6));
  add(Operation::append, 2, append_body(0, 6, 6));
  add(Operation::sample, 1, body_of(SampleRequest{0, 40}));
  add_frame(input, pull_frame(Lane::sample, 1, 0, 4096), kFixHeader);
  add(Operation::read_items, 2, body_of(ReadHeader{0, 3}, uint64_t{1}, kNoKey, uint64_t{5}));
  add(Operation::sample, 3, body_of(SampleRequest{0, 40, 0, kReferences}));
  add(Operation::follow, 4, body_of(FollowRequest{0, 100, 0}));
  add(Operation::follow, 5, body_of(FollowRequest{0, 100, 1}));
  add(Operation::sample, 6,
      body_of(SampleRequest{0, 40, 0, kReferences | kFrom}, uint64_t{1} << kKeyNumberBits));
  add(Operation::follow, 7, body_of(FollowRequest{0, 100 | kBefore, 0}));
  add(Operation::new_priorities, 1, body_of(ChangesRequest{0, 8, 0}));
  add(Operation::update_priorities, 2, body_of(UpdateHeader{0, 1}, uint64_t{3}, 0.5f));
  add(Operation::new_priorities, 3, body_of(ChangesRequest{0, 100, 5}));
  add(Operation::publish, ++control, body_of(PublishHeader{24, 0}, uint64_t{1}));
  add(Operation::publish, ++control, body_of(PublishHeader{24, 8}, uint64_t{2}, uint64_t{3}));
  add(Operation::fetch, ++control, body_of(FetchRequest{0}));
  add(Operation::report, ++control, report);
  add(Operation::stats, ++control, {});
  add(Operation::list_tables, ++control, {});
  add(Operation::empty_table, ++control, body_of(uint32_t{0}));
  add(Operation::take_over, ++control, {});
  add(Operation::put_blob, ++control, body_of(uint16_t{2}, uint16_t{0x6161}, uint32_t{4}, 7));
  add(Operation::get_blob, ++control, body_of(GetBlobRequest{0}, uint16_t{2}, uint16_t{0x6161}));
  add(Operation::directory, ++control, body_of(uint32_t{1}, uint32_t{0}, uint32_t{0}, uint32_t{0}));
  add(Operation::resume, ++control, body_of(StreamRequest{0, 1}, StreamName{0, 1, 0}));
  add(Operation::release, ++control, body_of(StreamRequest{0, 1}, StreamName{0, 1, 0}));
  add(Operation::drop_table, ++control, body_of(uint32_t{0}));
  return input;
}

// A request in two frames, its second one first, and a hello in between.
Bytes fragmented() {
  Bytes input;
  Bytes first = request_frame(Operation::append, 1, Bytes(kMinFrameBytes - kHeaderBytes));
  Bytes second = request_frame(Operation::append, 1, Bytes(100));
  FrameHeader header;
  std::memcpy(&header, second.data(), sizeof header);
  header.total_bytes = kMinFrameBytes - kHeaderBytes + 100;
  header.offset = kMinFrameBytes - kHeaderBytes;
  write_header(second.data(), header);
  std::memcpy(&header, first.data(), sizeof header);
  header.total_bytes = kMinFrameBytes - kHeaderBytes + 100;
  write_header(first.data(), header);
  add_frame(input, second, kFixHeader);
  add_frame(input, hello_frame(9), 0);
  add_frame(input, first, kFixHeader);
  return input;
}

// Takes what the server says, and remembers the streams that it leased.
void listen_to(Transport& transport, std::vector<Lease>& leases) {
  for (const RxFrame& frame : transport.recv_burst()) {
    FrameHeader header;
    if (parse_frame(frame.data, header) || header.kind != FrameKind::response ||
        header.operation != Operation::lease || header.status != 0) {
      continue;
    }
    leases.clear();
    ByteReader reader(frame_payload(frame.data));
    for (uint32_t i = 0; i < header.length / sizeof(Lease); ++i) {
      leases.push_back(reader.get<Lease>());
    }
  }
}

void use_leases(Bytes& frame, std::span<const Lease> leases) {
  FrameHeader header;
  if (!parse_frame(frame, header) && header.operation == Operation::append) {
    insert_tokens(std::span(frame).subspan(kHeaderBytes), leases);
  }
}

// The honest way in: the number of a session of ours.
uint32_t open_session(Server& server, Transport& transport, const Endpoint& to) {
  send_frame(transport, to, hello_frame(1));
  for (int round = 0; round < 10; ++round) {
    server.poll_once();
    for (const RxFrame& frame : transport.recv_burst()) {
      FrameHeader header;
      if (!parse_frame(frame.data, header) && header.kind == FrameKind::welcome) {
        return header.connection;
      }
    }
  }
  DRLNET_ASSERT(!"a server that says nothing to a hello");
  return 0;
}

}  // namespace

std::vector<Bytes> seeds() { return {whole_session(), fragmented()}; }

void run(std::span<const std::byte> input) {
  // With a place for a shard from elsewhere, so that its directory is reached, too.
  const auto servers = make_shards({.listen = {"memory:"}, .memory_bytes = 16 << 20}, 1, 1);
  Server& server = *servers[0];
  const Connected hostile = connect(server.addresses()[0]);
  const uint32_t connection = open_session(server, *hostile.transport, hostile.server);
  std::vector<Lease> leases;
  while (!input.empty()) {
    Bytes frame = take_frame(input, connection);
    use_leases(frame, leases);
    send_frame(*hostile.transport, hostile.server, frame);
    server.poll_once();
    listen_to(*hostile.transport, leases);
  }
  for (int round = 0; round < 1000 && server.poll_once(); ++round) hostile.transport->recv_burst();
  Client honest({.address = server.addresses()[0], .name = "honest"}, {}, [&] {
    hostile.transport->recv_burst();
    return server.poll_once();
  });
  honest.ping_ns();
}

}  // namespace drlnet::fuzz
