#include "wire/frame.h"

namespace drlnet {

const char* operation_name(Operation operation) {
  constexpr const char* kNames[] = {
#define DRLNET_OPERATION(name, lane, role) #name,
#include "wire/operations.def"
#undef DRLNET_OPERATION
  };
  return kNames[static_cast<size_t>(operation)];
}

const char* role_name(Role role) {
  constexpr const char* kNames[kRoles] = {"viewer", "actor", "learner"};
  return kNames[static_cast<size_t>(role)];
}

const char* drop_name(Drop drop) {
  constexpr const char* kNames[kDrops] = {"short_frame", "magic",    "version", "kind",
                                          "length",      "session",  "lane",    "request",
                                          "late",        "checksum", "forged",  "replayed"};
  return kNames[static_cast<size_t>(drop)];
}

std::optional<Drop> parse_frame(std::span<const std::byte> frame, FrameHeader& header,
                                size_t placed_bytes) {
  if (frame.size() < kHeaderBytes) return Drop::short_frame;
  std::memcpy(&header, frame.data(), sizeof header);
  if (header.magic != kMagic) return Drop::magic;
  const auto kind = static_cast<uint8_t>(header.kind);
  if (kind == 0 || kind >= kFrameKinds) return Drop::kind;
  // A hello or refuse of another version is for the handshake to answer.
  if (header.version != kVersion && header.kind != FrameKind::hello &&
      header.kind != FrameKind::keyed_hello && header.kind != FrameKind::refuse) {
    return Drop::version;
  }
  if (static_cast<size_t>(header.lane) >= kLanes) return Drop::lane;
  if (static_cast<size_t>(header.operation) >= kOperations) return Drop::kind;
  const size_t payload = frame.size() - kHeaderBytes + placed_bytes;
  switch (header.kind) {
    case FrameKind::hello:
      return payload < sizeof(Hello) ? std::optional(Drop::length) : std::nullopt;
    case FrameKind::welcome:
      return payload < sizeof(Welcome) ? std::optional(Drop::length) : std::nullopt;
    case FrameKind::keyed_hello:
      return payload < sizeof(KeyedHello) ? std::optional(Drop::length) : std::nullopt;
    case FrameKind::keyed_welcome:
      return payload < sizeof(KeyedWelcome) ? std::optional(Drop::length) : std::nullopt;
    case FrameKind::cookie:
      return payload < sizeof(KeyedHello::cookie) ? std::optional(Drop::length) : std::nullopt;
    case FrameKind::refuse:
    case FrameKind::reset:
    case FrameKind::bye:
      return header.length > payload ? std::optional(Drop::length) : std::nullopt;
    case FrameKind::pull:
      if (payload != 0 || header.length == 0) return Drop::length;
      break;
    case FrameKind::request:
      if (lane_of(header.operation) != header.lane) return Drop::lane;
      if (header.total_bytes > kMaxRequestBytes) return Drop::length;
      [[fallthrough]];
    case FrameKind::response:
      if (uint64_t{header.offset} + header.length > header.total_bytes) return Drop::length;
      [[fallthrough]];
    default:
      if (header.length != payload) return Drop::length;
  }
  if (header.frame_bytes < kMinFrameBytes) return Drop::length;
  return std::nullopt;
}

}  // namespace drlnet
