#include "vhost_client.h"

#include "transport/link/point_to_point.h"

namespace drlnet::fuzz {
namespace {

using link::PackedRing;

void add_post(ByteWriter& writer, Ring ring, uint64_t address, uint32_t bytes) {
  writer.put(Step::post);
  writer.put(ring);
  writer.put(address);
  writer.put(bytes);
  writer.put(uint16_t{0});
  writer.put(uint16_t{0});
}
void add_frame(ByteWriter& writer, uint16_t at, size_t payload_bytes) {
  const Bytes frame = vhost_frame(payload_bytes);
  writer.put(Step::write);
  writer.put(uint8_t{1});
  writer.put(at);
  writer.put(static_cast<uint16_t>(frame.size()));
  writer.raw(frame);
  add_post(writer, kFromDriver, kAddress + kApart + at, static_cast<uint32_t>(frame.size()));
  writer.put(Step::receive);
}
void add_send(ByteWriter& writer, uint8_t count, uint16_t bytes, bool lent) {
  writer.put(Step::send);
  writer.put(count);
  writer.put(bytes);
  writer.put(lent);
}
void add_place(ByteWriter& writer, uint16_t bytes, bool lent) {
  writer.put(Step::place);
  writer.put(bytes);
  writer.put(lent);
}
void add_notice(ByteWriter& writer, Notice notice, uint8_t argument) {
  writer.put(Step::notice);
  writer.put(notice);
  writer.put(argument);
}
void add_agree(ByteWriter& writer, Ring ring, int16_t at, int16_t event, uint16_t size,
               uint16_t position) {
  writer.put(Step::agree);
  writer.put(ring);
  writer.put(at);
  writer.put(event);
  writer.put(size);
  writer.put(position);
}

Bytes frames_in() {
  Bytes input;
  ByteWriter writer(input);
  for (const uint16_t bytes : {1, 64, 1232, 8968}) add_frame(writer, 0, bytes);
  // Many at once, the last of them not there.
  for (int i = 0; i < 40; ++i) add_post(writer, kFromDriver, kAddress + kApart, 200);
  writer.put(Step::receive);
  writer.put(Step::receive);
  return input;
}

Bytes frames_out() {
  Bytes input;
  ByteWriter writer(input);
  for (int i = 0; i < 6; ++i) add_post(writer, kToDriver, kAddress + kApart, kBufferBytes);
  add_send(writer, 2, 300, false);
  add_send(writer, 2, 8968, true);
  add_place(writer, 100, false);
  add_place(writer, 8968, true);
  add_post(writer, kToDriver, kAddress + kApart, 100);  // too short for it
  add_place(writer, 8968, true);
  add_send(writer, 3, 8968, true);
  return input;
}

// The buffers are the rings themselves.
Bytes rings_in_buffers() {
  Bytes input;
  ByteWriter writer(input);
  for (int i = 0; i < 4; ++i) add_post(writer, kToDriver, kAddress, kControlBytes);
  add_send(writer, 4, 900, false);
  add_place(writer, 500, true);
  add_frame(writer, 0, 64);
  return input;
}

Bytes other_layouts() {
  Bytes input;
  ByteWriter writer(input);
  add_frame(writer, 0, 64);
  add_agree(writer, kFromDriver, kRingBytes, kEvents, kDescriptors, PackedRing::kTurn | 1);
  add_frame(writer, 100, 64);
  writer.put(Step::remap);
  writer.put(uint8_t{1});
  writer.put(kAddress + 100);
  writer.put(uint64_t{5000});
  add_frame(writer, 0, 64);
  for (uint8_t i = 0; i < static_cast<uint8_t>(Notice::count); ++i) {
    add_notice(writer, static_cast<Notice>(i), 3);
    add_post(writer, kToDriver, kAddress + kApart, kBufferBytes);
    add_send(writer, 1, 64, false);
    writer.put(Step::receive);
  }
  add_agree(writer, kToDriver, 0, kEvents, 16, 0);
  add_agree(writer, kToDriver, -16, kEvents, 16, PackedRing::kTurn);
  add_agree(writer, kToDriver, 0, kControlBytes - 2, kDescriptors, PackedRing::kTurn);
  return input;
}

}  // namespace

link::Host vhost_host(uint8_t number) {
  return {{{2, 0, 0, 0, 0, number}}, link::IpAddress::from_v4(0xa9fe4d00u + number)};
}

Bytes vhost_frame(size_t payload_bytes) {
  Bytes frame(kVirtioBytes + kHeaders + payload_bytes, std::byte{7});
  link::PointToPoint({vhost_host(2), vhost_host(1), kPort, kPort})
      .write(&frame[kVirtioBytes + kHeaders], payload_bytes);
  return frame;
}

std::vector<Bytes> seeds() {
  return {frames_in(), frames_out(), rings_in_buffers(), other_layouts()};
}

}  // namespace drlnet::fuzz
