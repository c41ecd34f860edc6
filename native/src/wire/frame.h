// The frame: what one datagram holds. Byte-level specification: native/PROTOCOL.md.
// Every frame begins with these 64 bytes, little-endian; what follows is a fragment of a message.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace drlnet {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian, as are we");

constexpr uint16_t kMagic = 0x4C44;  // "DL"
constexpr uint8_t kVersion = 2;

enum class FrameKind : uint8_t {
  hello = 1,     // client: open a session; padded to a frame size that is being probed
  welcome = 2,   // server: session opened; padded to the hello's size
  refuse = 3,    // server: no session; status says why, the payload holds cause and remedy
  request = 4,   // client: a fragment of a request
  ack = 5,       // server: which fragments of a request have arrived (payload: a bitmap)
  pending = 6,   // server: the request waits; status holds the reason (Wait)
  response = 7,  // server: a fragment of a reply
  pull = 8,      // client: send bytes [offset, offset + length) of a reply
  reset = 9,     // server: no such session; say hello again
  bye = 10,      // client: the session ends
  // Only sealed sessions have these (PROTOCOL.md, "Keys"):
  keyed_hello = 11,    // client: a hello, or the question for the cookie that one needs
  cookie = 12,         // server: what proves that a hello comes from where it says
  keyed_welcome = 13,  // server: as welcome
};
constexpr uint8_t kFrameKinds = 14;
constexpr uint8_t kSealedBit = 0x80;  // of the kind, on the wire: the frame is sealed

// Requests of one lane run in order, one after another; lanes do not wait for each other, so that
// an append which waits for the limiter cannot block the sample that would release it.
enum class Lane : uint8_t { control = 0, append = 1, sample = 2, update = 3 };
constexpr size_t kLanes = 4;
// How many requests of a lane may be under way at once.
constexpr std::array<uint32_t, kLanes> kLaneWindow = {4, 8, 32, 8};
// The place of a request in its lane's window. A mask: a division costs as much as the rest of what
// is done with the place.
constexpr size_t window_place(uint64_t request, size_t window) { return request & (window - 1); }
static_assert(std::ranges::all_of(kLaneWindow, [](uint32_t n) { return std::has_single_bit(n); }));

// What a client's key lets it do: each role whatever those before it may.
enum class Role : uint8_t { viewer, actor, learner };
constexpr size_t kRoles = 3;
const char* role_name(Role role);

enum class Operation : uint8_t {
#define DRLNET_OPERATION(name, lane, role) name,
#include "wire/operations.def"
#undef DRLNET_OPERATION
};
namespace operations {
constexpr Lane kLaneOf[] = {
#define DRLNET_OPERATION(name, lane, role) Lane::lane,
#include "wire/operations.def"
#undef DRLNET_OPERATION
};
constexpr Role kRoleOf[] = {
#define DRLNET_OPERATION(name, lane, role) Role::role,
#include "wire/operations.def"
#undef DRLNET_OPERATION
};
}  // namespace operations
constexpr size_t kOperations = std::size(operations::kLaneOf);
constexpr Lane lane_of(Operation operation) {
  return operations::kLaneOf[static_cast<size_t>(operation)];
}
// The least role that may ask for it.
constexpr Role role_for(Operation operation) {
  return operations::kRoleOf[static_cast<size_t>(operation)];
}
const char* operation_name(Operation operation);

struct FrameHeader {
  uint16_t magic = kMagic;
  uint8_t version = kVersion;
  FrameKind kind{};
  uint32_t connection = 0;     // the server's number for the session, 0 in hello
  uint64_t packet_number = 0;  // per session and direction, grows: the nonce of a sealed frame
  // In a sealed frame these 16 bytes are the tag, and what follows is encrypted.
  uint32_t checksum = 0;  // of the frame (session/seal.h)
  uint8_t tag[12] = {};   // zeros
  // The message that this frame is a part of.
  Lane lane{};
  Operation operation{};
  uint16_t status = 0;       // a Status; in pending a Wait
  uint16_t frame_bytes = 0;  // the largest frame that the sender takes and sends
  uint16_t reserved = 0;
  uint64_t request = 0;      // number of the request within its lane, from 1
  uint32_t total_bytes = 0;  // of the whole request or reply
  uint32_t offset = 0;       // of this fragment; a multiple of frame_bytes - 64
  uint32_t length = 0;       // of this fragment; in pull: of the range asked for
  // From the server: bytes of requests that the client may have in flight. In a request: bytes of
  // the reply that may come unasked; the rest is pulled.
  uint32_t credit = 0;
};
static_assert(sizeof(FrameHeader) == 64);
static_assert(offsetof(FrameHeader, packet_number) == 8 && offsetof(FrameHeader, checksum) == 16);
static_assert(offsetof(FrameHeader, lane) == 32 && offsetof(FrameHeader, request) == 40);
static_assert(offsetof(FrameHeader, total_bytes) == 48 && offsetof(FrameHeader, credit) == 60);

constexpr uint32_t kHeaderBytes = sizeof(FrameHeader);
constexpr uint32_t kMaxRequestBytes = 256 * 1024;
constexpr uint32_t kMaxSampleRequestBytes = 64 * 1024;  // those of the sample lane
constexpr uint32_t kMinFrameBytes = 1232;
constexpr uint32_t kMaxRequestFragments = 256;  // bits of an ack
static_assert(kMaxRequestBytes / (kMinFrameBytes - kHeaderBytes) < kMaxRequestFragments);

// Why a frame was dropped. Each has a counter.
enum class Drop : uint8_t {
  short_frame,
  magic,
  version,
  kind,
  length,
  session,
  lane,
  request,
  late,
  checksum,
  forged,   // not sealed with the session's key, or altered since
  replayed  // has come before, or is older than the newest 2,048
};
constexpr size_t kDrops = 12;
const char* drop_name(Drop drop);

// Checks everything that can be checked without a session. Never throws, never allocates.
// placed_bytes: of the frame, behind those, which lie elsewhere.
std::optional<Drop> parse_frame(std::span<const std::byte> frame, FrameHeader& header,
                                size_t placed_bytes = 0);

inline std::span<const std::byte> frame_payload(std::span<const std::byte> frame) {
  return frame.subspan(kHeaderBytes);
}
// Field by field: a header that has just been filled cannot be loaded in larger pieces before its
// fields have left the processor's store buffer.
inline void write_header(std::byte* frame, const FrameHeader& header) {
  const auto put = [&](const auto&... fields) {
    const auto* begin = reinterpret_cast<const std::byte*>(&header);
    (std::memcpy(frame + (reinterpret_cast<const std::byte*>(&fields) - begin), &fields,
                 sizeof fields),
     ...);
  };
  put(header.magic, header.version, header.kind, header.connection, header.packet_number,
      header.checksum, header.tag, header.lane, header.operation, header.status, header.frame_bytes,
      header.reserved, header.request, header.total_bytes, header.offset, header.length,
      header.credit);
}

// Bits of capabilities, of hello and welcome alike.
// Its sender takes no datagrams that an offload has joined: the other side sends each alone.
constexpr uint64_t kFramesApart = 1;
// The client has AES's instructions; from the server: frames are sealed with AES-256-GCM, else with
// ChaCha20-Poly1305. Of sealed sessions alone.
constexpr uint64_t kAes = 2;

// hello and welcome carry these.
struct Hello {
  uint64_t client = 0;                  // unpredictable; the same over reconnects of one client
  uint64_t capabilities = 0;            // more bits to come: keys, encryption, central inference
  uint64_t nonce = 0;                   // of this attempt; a resent hello opens one session
  uint64_t first_request[kLanes] = {};  // per lane: where the session goes on after a lost one
  uint32_t finished[kLanes] = {};       // bit b: request first_request + b needs no answer any more
  char name[40] = {};                   // for people, zero-padded
};
static_assert(sizeof(Hello) == 112);

struct Welcome {
  uint64_t lineage = 0;  // the server, over its restarts: another one has other tables and streams
  uint64_t capabilities = 0;
  uint64_t nonce = 0;
  uint32_t shard = 0;        // which one of the server's shards answers
  uint32_t shards = 0;       // how many there are; 0: the server is one alone
  uint64_t incarnation = 0;  // counts its starts: tells a restart from a lost session
};
static_assert(sizeof(Welcome) == 40);

// What a keyed hello carries. The key's number and the cookie are clear; the message is the first
// one of the handshake, and has a Hello in it.
struct KeyedHello {
  uint32_t key_id = 0;
  uint32_t reserved = 0;
  std::array<std::byte, 16> cookie{};  // zeros where the client has none yet
  std::array<std::byte, 96 + sizeof(Hello)> message{};
};
static_assert(sizeof(KeyedHello) == 232);

// What the second message of the handshake has in it: no one else can say another connection or
// credit.
struct Admission {
  Welcome welcome;
  uint32_t connection = 0, credit = 0;
};
struct KeyedWelcome {
  std::array<std::byte, 48 + sizeof(Admission)> message{};
};

}  // namespace drlnet
