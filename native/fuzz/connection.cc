// Arbitrary frames from a server into a live client session.
#include "session/client/connection.h"

#include "base/assert.h"
#include "fuzz.h"
#include "raw_session.h"

namespace drlnet::fuzz {
namespace {

constexpr uint32_t kConnection = 4097;

Bytes reply_frame(Operation operation, FrameKind kind, uint32_t total, uint32_t offset,
                  uint32_t length) {
  Bytes frame = request_frame(operation, 1, Bytes(length));
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  header.kind = kind;
  header.total_bytes = total;
  header.offset = offset;
  write_header(frame.data(), header);
  return frame;
}

// Answers the hello, so that the session is open when the input begins.
void welcome(Transport& server, Connection& client, Endpoint& client_endpoint) {
  client.progress();
  for (const RxFrame& frame : server.recv_burst()) {
    Hello hello;
    std::memcpy(&hello, frame_payload(frame.data).data(), sizeof hello);
    Welcome answer;
    answer.lineage = 1;
    answer.nonce = hello.nonce;
    FrameHeader header;
    header.kind = FrameKind::welcome;
    header.connection = kConnection;
    header.frame_bytes = kMinFrameBytes;
    header.length = sizeof answer;
    header.credit = 1 << 20;
    Bytes bytes;
    ByteWriter writer(bytes);
    writer.put(header);
    writer.put(answer);
    bytes.resize(frame.data.size());
    client_endpoint = frame.from;
    send_frame(server, frame.from, bytes);
  }
}

}  // namespace

std::vector<Bytes> seeds() {
  const auto flags = static_cast<uint8_t>(kFixHeader | kFixLength);
  std::vector<Bytes> list(2);
  add_frame(list[0], reply_frame(Operation::stats, FrameKind::ack, 0, 0, 32), flags);
  add_frame(list[0], reply_frame(Operation::stats, FrameKind::pending, 0, 0, 0), flags);
  add_frame(list[0], reply_frame(Operation::stats, FrameKind::response, 300, 0, 300), flags);
  add_frame(list[0], reply_frame(Operation::sample, FrameKind::response, 4096, 0, 1168), flags);
  add_frame(list[0], reply_frame(Operation::sample, FrameKind::response, 4096, 2336, 1168), flags);
  add_frame(list[0], reply_frame(Operation::sample, FrameKind::response, 4096, 1168, 1168), flags);
  add_frame(list[0], reply_frame(Operation::sample, FrameKind::response, 4096, 3504, 592), flags);
  add_frame(list[1], reply_frame(Operation::ping, FrameKind::reset, 0, 0, 0), flags);
  add_frame(list[1], reply_frame(Operation::stats, FrameKind::response, 40000, 1168, 1168), flags);
  add_frame(list[1], reply_frame(Operation::ping, FrameKind::refuse, 0, 0, 40), flags);
  return list;
}

void run(std::span<const std::byte> input) {
  const auto server = listen("memory:");
  // Before the connection, so that a late write into it is one into freed memory.
  Bytes destination(4096);
  Connection client(connect(server->local_address()), "client");
  Endpoint endpoint;
  for (int round = 0; round < 100 && client.state() == Connection::State::hello; ++round) {
    welcome(*server, client, endpoint);
  }
  const CallId stats = client.submit(client.begin(Operation::stats));
  Call& sample = client.begin(Operation::sample);
  sample.destination = std::span(destination);
  sample.body.resize(sizeof(SampleRequest));
  client.submit(sample);
  while (!input.empty()) {
    send_frame(*server, endpoint, take_frame(input, kConnection));
    client.progress();
    server->recv_burst();
  }
  if (client.state() == Connection::State::open && client.done(stats)) client.release(stats);
}

}  // namespace drlnet::fuzz
