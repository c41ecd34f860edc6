#include "measure/flood.h"

#include <cstring>

#include "base/assert.h"
#include "base/error.h"
#include "base/world.h"
#include "session/seal.h"
#include "wire/frame.h"

namespace drlnet::measure {
namespace {

constexpr size_t kBurst = 16;  // of a port, before the next one's
constexpr uint64_t kPatienceNs = 10'000'000'000, kAskAgainNs = 20'000'000;

void put(TxFrame& frame, const FrameHeader& header, size_t bytes) {
  write_header(frame.data, header);
  frame.length = static_cast<uint32_t>(bytes);
}

}  // namespace

Flood::Flood(const std::string& address, const std::string& kind, uint32_t ports)
    : kind_(kind == "garbage"  ? Kind::garbage
            : kind == "hellos" ? Kind::hellos
                               : Kind::replays),
      random_(random_secret()) {
  DRLNET_ASSERT(ports > 0 && (kind_ != Kind::replays || kind == "replays"));
  for (uint32_t i = 0; i < ports; ++i) {
    Connected connected = connect(address);
    ports_.push_back({connected.transport.get(), connected.server});
    transports_.push_back(std::move(connected.transport));
    if (kind_ == Kind::replays) open(ports_.back());
  }
}

// A session, and a request in it that is answered.
void Flood::open(Port& port) {
  const uint64_t deadline = now_ns() + kPatienceNs;
  uint64_t ask_at = 0;
  for (bool answered = false; !answered;) {
    const uint64_t now = now_ns();
    if (now >= deadline) {
      throw Error(Status::timeout, "the server opens no session for a flood",
                  "measure a server without keys that has room for more clients");
    }
    if (now >= ask_at) {
      ask_at = now + kAskAgainNs;
      const std::span<TxFrame> frame = port.transport->reserve(1);
      if (port.connection == 0) {
        fill_hello(frame[0]);
      } else {
        fill_ping(port, frame[0]);
      }
      frame[0].to = port.server;
      seal(frame[0]);
      port.transport->send_burst(frame);
    }
    for (const RxFrame& frame : port.transport->recv_burst()) {
      FrameHeader header;
      if (parse_frame(frame.data, header)) continue;
      if (header.kind == FrameKind::welcome && port.connection == 0) {
        port.connection = header.connection;
        ask_at = 0;
      }
      answered |= header.kind == FrameKind::response;
    }
  }
}

uint64_t Flood::run(uint64_t for_ns) {
  uint64_t sent = 0;
  for (const uint64_t end = now_ns() + for_ns; now_ns() < end;) {
    Port& port = ports_[next_++ % ports_.size()];
    const std::span<TxFrame> frames = port.transport->reserve(kBurst);
    for (TxFrame& frame : frames) fill(port, frame);
    sent += port.transport->send_burst(frames);
    // Answers are not looked at: the kernel drops them once the port's buffer is full.
  }
  return sent;
}

void Flood::fill(const Port& port, TxFrame& frame) {
  frame.to = port.server;
  frame.apart = true;
  frame.loans.clear();
  switch (kind_) {
    case Kind::hellos:
      fill_hello(frame);
      break;
    case Kind::replays:
      fill_ping(port, frame);
      break;
    case Kind::garbage: {
      FrameHeader header;
      header.kind = FrameKind::request;
      header.connection = static_cast<uint32_t>(random_.bits());
      header.frame_bytes = kMinFrameBytes;
      if (random_.bits() % 2 == 0) header.magic = static_cast<uint16_t>(random_.bits());
      put(frame, header, kHeaderBytes);
    }
  }
  seal(frame);
}

void Flood::fill_hello(TxFrame& frame) {
  FrameHeader header;
  header.kind = FrameKind::hello;
  header.length = sizeof(Hello);
  Hello hello;
  hello.client = random_.bits();
  hello.nonce = random_.bits();
  std::memcpy(hello.name, "flood", 5);
  std::memset(frame.data, 0, kMinFrameBytes);
  std::memcpy(frame.data + kHeaderBytes, &hello, sizeof hello);
  put(frame, header, kMinFrameBytes);
}

void Flood::fill_ping(const Port& port, TxFrame& frame) {
  FrameHeader header;
  header.kind = FrameKind::request;
  header.connection = port.connection;
  header.lane = lane_of(Operation::ping);
  header.operation = Operation::ping;
  header.frame_bytes = kMinFrameBytes;
  header.request = 1;
  put(frame, header, kHeaderBytes);
}

}  // namespace drlnet::measure
