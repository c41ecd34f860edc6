// Frame headers: what passes the check can be used without further ones.
#include "wire/frame.h"

#include "base/assert.h"
#include "fuzz.h"
#include "raw_session.h"
#include "session/fragments.h"

namespace drlnet::fuzz {

std::vector<Bytes> seeds() {
  std::vector<Bytes> list = {hello_frame(1), request_frame(Operation::ping, 1, Bytes(100)),
                             request_frame(Operation::append, 7, Bytes(1000))};
  for (const FrameKind kind : {FrameKind::response, FrameKind::ack, FrameKind::pending}) {
    list.push_back(request_frame(Operation::sample, 3, Bytes(64)));
    list.back()[offsetof(FrameHeader, kind)] = static_cast<std::byte>(kind);
  }
  return list;
}

void run(std::span<const std::byte> input) {
  const Bytes frame = exact(input);
  FrameHeader header;
  if (parse_frame(frame, header)) return;
  const auto payload = frame_payload(frame);
  DRLNET_ASSERT(static_cast<size_t>(header.lane) < kLanes);
  DRLNET_ASSERT(operation_name(header.operation) != nullptr);
  if (header.kind == FrameKind::request || header.kind == FrameKind::response) {
    DRLNET_ASSERT(header.length == payload.size());
    DRLNET_ASSERT(uint64_t{header.offset} + header.length <= header.total_bytes);
  }
  if (header.kind == FrameKind::request) {
    DRLNET_ASSERT(header.total_bytes <= kMaxRequestBytes);
    const uint32_t room = std::min<uint32_t>(header.frame_bytes, kMaxFrameBytes) - kHeaderBytes;
    Fragments fragments;
    fragments.begin(header.total_bytes, room);
    DRLNET_ASSERT(fragments.count() <= kMaxRequestFragments);
    if (fragments.fits(header.offset, header.length)) fragments.add(header.offset);
  }
}

}  // namespace drlnet::fuzz
