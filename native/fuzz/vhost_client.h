// What a client's process does to a link over shared memory, as an input of fuzz_vhost says it.
#pragma once

#include "fuzz.h"
#include "transport/link/packed_ring.h"
#include "transport/link/packet.h"

namespace drlnet::fuzz {

enum class Step : uint8_t { receive, send, place, write, post, agree, remap, notice, count };
enum Ring : uint8_t { kToDriver, kFromDriver, kRings };
// What the library tells the port.
enum class Notice : uint8_t { ready, runs, stops, refused_message, reconnects, count };

constexpr uint16_t kDescriptors = 32;
constexpr uint64_t kAddress = 0x7f00'0000'0000, kApart = 0x1'0000;  // of the memory's regions
// Where things lie in the first one; the other one has the buffers, which hold more than a frame.
constexpr uint16_t kRingBytes = kDescriptors * sizeof(link::PackedDescriptor);
constexpr uint16_t kEvents = kRings * kRingBytes, kControlBytes = kEvents + kRings * 4;
constexpr uint32_t kBufferBytes = 10'240, kBuffers = 2;
constexpr size_t kVirtioBytes = 12, kHeaders = link::udp_header_bytes(true);
constexpr uint16_t kPort = 7447;

link::Host vhost_host(uint8_t number);
// What a driver writes before a frame's payload, and the payload.
Bytes vhost_frame(size_t payload_bytes);

}  // namespace drlnet::fuzz
