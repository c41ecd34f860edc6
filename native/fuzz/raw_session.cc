#include "raw_session.h"

namespace drlnet::fuzz {

TableSpec small_table() {
  TableSpec spec;
  spec.name = "replay";
  spec.capacity = 64;
  spec.columns = {{"obs", DataType::f32, {3}}, {"reward", DataType::f32, {}}};
  spec.item.views = {{"obs", 0, -1, 0, Pad::repeat, Align::anchor},
                     {"next_obs", 0, 1, 2, Pad::repeat, Align::end},
                     {"reward", 1, 1, 2, Pad::zero, Align::anchor}};
  return spec;
}

Bytes append_body(uint32_t ordinal, uint64_t first_step, uint32_t rows) {
  Bytes body;
  ByteWriter writer(body);
  writer.put(AppendHeader{0, 1, rows, rows});
  writer.put(AppendSegment{ordinal, 1, 0, first_step, rows, 0});
  for (uint32_t i = 0; i < rows; ++i) {
    const uint64_t step = first_step + i;
    writer.put(static_cast<uint8_t>(step % 5 == 0 ? kFirst : step % 5 == 4 ? kLast : 0));
  }
  writer.align8();
  for (const ColumnSpec& column : small_table().columns) {
    writer.raw(Bytes(column.bytes() * rows, std::byte{0x3F}));
    writer.align8();
  }
  for (uint32_t i = 0; i < rows; ++i) writer.put(AppendItem{ordinal, 1, first_step + i, 1.0f, 0});
  return body;
}

void insert_tokens(std::span<std::byte> body, std::span<const Lease> leases) {
  AppendHeader header;
  if (body.size() < sizeof header) return;
  std::memcpy(&header, body.data(), sizeof header);
  for (size_t i = 0; i < header.segments; ++i) {
    const size_t at = sizeof header + i * sizeof(AppendSegment);
    if (at + sizeof(AppendSegment) > body.size()) return;
    AppendSegment segment;
    std::memcpy(&segment, &body[at], sizeof segment);
    if (segment.token == 0 && segment.ordinal < leases.size()) {
      segment.token = leases[segment.ordinal].token;
    }
    std::memcpy(&body[at], &segment, sizeof segment);
  }
}

Bytes hello_frame(uint64_t client) {
  FrameHeader header;
  header.kind = FrameKind::hello;
  header.frame_bytes = kMinFrameBytes;
  header.length = sizeof(Hello);
  Hello hello;
  hello.client = client;
  hello.nonce = client;
  Bytes frame;
  ByteWriter writer(frame);
  writer.put(header);
  writer.put(hello);
  frame.resize(kMinFrameBytes);
  return frame;
}

Bytes request_frame(Operation operation, uint64_t request, std::span<const std::byte> body) {
  FrameHeader header;
  header.kind = FrameKind::request;
  header.lane = lane_of(operation);
  header.operation = operation;
  header.frame_bytes = kMinFrameBytes;
  header.request = request;
  header.total_bytes = header.length = static_cast<uint32_t>(body.size());
  header.credit = 4096;
  Bytes frame;
  ByteWriter writer(frame);
  writer.put(header);
  writer.raw(body);
  return frame;
}

Bytes pull_frame(Lane lane, uint64_t request, uint32_t offset, uint32_t length) {
  FrameHeader header;
  header.kind = FrameKind::pull;
  header.lane = lane;
  header.frame_bytes = kMinFrameBytes;
  header.request = request;
  header.offset = offset;
  header.length = length;
  Bytes frame;
  ByteWriter(frame).put(header);
  return frame;
}

void add_frame(Bytes& input, std::span<const std::byte> frame, uint8_t fix) {
  ByteWriter writer(input);
  writer.put(static_cast<uint16_t>(frame.size()));
  writer.put(fix);
  writer.raw(frame);
}

Bytes take_frame(std::span<const std::byte>& input, uint32_t connection) {
  ByteReader reader(input);
  const auto length = reader.get<uint16_t>();
  const auto fix = reader.get<uint8_t>();
  input = input.subspan(std::min<size_t>(3, input.size()));
  Bytes frame = exact(input.first(std::min({size_t{length}, input.size(), kJumboFrameBytes})));
  input = input.subspan(frame.size());
  if (frame.size() < kHeaderBytes) return frame;
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  if (fix & kFixHeader) {
    header.magic = kMagic;
    header.version = kVersion;
    header.connection = connection;
  }
  if (fix & kFixLength) header.length = static_cast<uint32_t>(frame.size() - kHeaderBytes);
  write_header(frame.data(), header);
  return frame;
}

void send_frame(Transport& transport, const Endpoint& to, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::span<TxFrame> frame = transport.reserve(1);
  frame[0].to = to;
  frame[0].length = static_cast<uint32_t>(bytes.size());
  std::ranges::copy(bytes, frame[0].data);
  transport.send_burst(frame);
}

}  // namespace drlnet::fuzz
