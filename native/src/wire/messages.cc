#include "wire/messages.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "wire/codec.h"

namespace drlnet {
namespace {

// More than any honest message holds; keeps a hostile count from growing a vector.
constexpr uint32_t kMaxCount = 4096;

constexpr uint64_t up8(uint64_t bytes) { return (bytes + 7) & ~uint64_t{7}; }

}  // namespace

void encode(const TableSpec& spec, Bytes& out) {
  ByteWriter writer(out);
  writer.text(spec.name);
  writer.put(spec.capacity);
  writer.put(spec.seed);
  writer.put(static_cast<uint16_t>(spec.columns.size()));
  for (const ColumnSpec& column : spec.columns) {
    writer.text(column.name);
    writer.put(column.type);
    writer.put(static_cast<uint8_t>(column.shape.size()));
    for (const uint32_t extent : column.shape) writer.put(extent);
  }
  writer.put(static_cast<uint16_t>(spec.item.views.size()));
  for (const ViewSpec& view : spec.item.views) {
    writer.text(view.name);
    writer.put(view.column);
    writer.put(view.lo);
    writer.put(view.hi);
    writer.put(view.pad);
    writer.put(view.align);
  }
  writer.put(spec.item.boundary);
  writer.put(spec.item.period);
  writer.text(spec.sampler.name);
  writer.put(spec.sampler.priority_exponent);
  writer.put(spec.sampler.priority_floor);
  writer.put(static_cast<uint16_t>(spec.sampler.options.size()));
  for (const auto& [name, value] : spec.sampler.options) {
    writer.text(name);
    writer.put(value);
  }
  const LimiterSpec& limiter = spec.limiter;
  writer.put(limiter.min_size);
  writer.put(limiter.samples_per_insert);
  writer.put(limiter.error_buffer);
  writer.put(limiter.batch);
  writer.put(limiter.prefetch);
  writer.put(limiter.append_burst);
  writer.put(limiter.max_times_sampled);
}

bool decode(std::span<const std::byte> bytes, TableSpec& spec) {
  ByteReader reader(bytes);
  spec.name = reader.text();
  spec.capacity = reader.get<uint64_t>();
  spec.seed = reader.get<uint64_t>();
  const auto columns = reader.get<uint16_t>();
  for (uint32_t i = 0; i < columns && reader.ok(); ++i) {
    ColumnSpec column;
    column.name = reader.text();
    const auto type = reader.get<uint8_t>();
    if (type >= kDataTypeCount) return false;
    column.type = static_cast<DataType>(type);
    const auto dimensions = reader.get<uint8_t>();
    for (uint32_t d = 0; d < dimensions && reader.ok(); ++d) {
      column.shape.push_back(reader.get<uint32_t>());
    }
    spec.columns.push_back(std::move(column));
  }
  const auto views = reader.get<uint16_t>();
  for (uint32_t i = 0; i < views && reader.ok(); ++i) {
    ViewSpec view;
    view.name = reader.text();
    view.column = reader.get<uint16_t>();
    view.lo = reader.get<int32_t>();
    view.hi = reader.get<int32_t>();
    const auto pad = reader.get<uint8_t>();
    const auto align = reader.get<uint8_t>();
    if (pad > 1 || align > 1) return false;
    view.pad = static_cast<Pad>(pad);
    view.align = static_cast<Align>(align);
    spec.item.views.push_back(std::move(view));
  }
  const auto boundary = reader.get<uint8_t>();
  if (boundary > 1) return false;
  spec.item.boundary = static_cast<Boundary>(boundary);
  spec.item.period = reader.get<uint32_t>();
  spec.sampler.name = reader.text();
  spec.sampler.priority_exponent = reader.get<double>();
  spec.sampler.priority_floor = reader.get<double>();
  const auto options = reader.get<uint16_t>();
  for (uint32_t i = 0; i < options && reader.ok(); ++i) {
    std::string name(reader.text());
    spec.sampler.options[std::move(name)] = reader.get<double>();
  }
  spec.limiter.min_size = reader.get<uint64_t>();
  spec.limiter.samples_per_insert = reader.get<double>();
  spec.limiter.error_buffer = reader.get<double>();
  spec.limiter.batch = reader.get<uint32_t>();
  spec.limiter.prefetch = reader.get<uint32_t>();
  spec.limiter.append_burst = reader.get<uint32_t>();
  spec.limiter.max_times_sampled = reader.get<uint32_t>();
  return reader.finished();
}

void encode(std::span<const TableSpec> specs, Bytes& out) {
  ByteWriter(out).put(static_cast<uint32_t>(specs.size()));
  for (const TableSpec& spec : specs) {
    Bytes one;
    encode(spec, one);
    ByteWriter writer(out);
    writer.put(static_cast<uint32_t>(one.size()));
    writer.raw(one);
  }
}

bool decode(std::span<const std::byte> bytes, std::vector<TableSpec>& specs) {
  ByteReader reader(bytes);
  const auto count = reader.get<uint32_t>();
  if (count > kMaxCount) return false;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    if (!decode(reader.take(reader.get<uint32_t>()), specs.emplace_back())) return false;
  }
  return reader.finished();
}

bool split_append(std::span<const std::byte> bytes, std::span<const uint32_t> column_bytes,
                  Append& append) {
  ByteReader reader(bytes);
  const auto header = reader.get<AppendHeader>();
  append.segments = reader.records<AppendSegment>(header.segments);
  append.row_flags = reader.records<uint8_t>(header.rows);
  reader.align8();
  append.columns.clear();
  for (const uint32_t size : column_bytes) {
    append.columns.push_back(reader.take(uint64_t{size} * header.rows));
    reader.align8();
  }
  append.items = reader.records<AppendItem>(header.items);
  uint64_t rows = 0;
  for (const AppendSegment& segment : append.segments) rows += segment.rows;
  return reader.finished() && rows == header.rows;
}

uint64_t append_bytes(std::span<const uint32_t> column_bytes, uint32_t segments, uint32_t rows,
                      uint32_t items) {
  uint64_t total = sizeof(AppendHeader) + uint64_t{segments} * sizeof(AppendSegment) + up8(rows);
  for (const uint32_t size : column_bytes) total += up8(uint64_t{size} * rows);
  return total + uint64_t{items} * sizeof(AppendItem);
}

void encode(const Metrics& metrics, Bytes& out) {
  ByteWriter writer(out);
  writer.put(static_cast<uint32_t>(metrics.list().size()));
  for (const auto& [name, value] : metrics.list()) {
    writer.text(name);
    writer.put(static_cast<uint8_t>(value.index()));
    if (const auto* number = std::get_if<uint64_t>(&value)) writer.put(*number);
    if (const auto* number = std::get_if<double>(&value)) writer.put(*number);
    if (const auto* text = std::get_if<std::string>(&value)) writer.text(*text);
    if (const auto* reading = std::get_if<HistogramReading>(&value)) {
      writer.put(reading->sum_ns);
      writer.put(reading->max_ns);
      writer.put(static_cast<uint32_t>(reading->buckets.size()));
      for (const auto& [index, count] : reading->buckets) {
        writer.put(index);
        writer.put(count);
      }
    }
  }
}

bool decode(std::span<const std::byte> bytes, Metrics& metrics) {
  ByteReader reader(bytes);
  const auto entries = reader.get<uint32_t>();
  if (entries > bytes.size()) return false;  // each takes several
  for (uint32_t i = 0; i < entries && reader.ok(); ++i) {
    std::string name(reader.text());
    switch (reader.get<uint8_t>()) {
      case 0:
        metrics.set(std::move(name), reader.get<uint64_t>());
        break;
      case 1:
        metrics.set(std::move(name), reader.get<double>());
        break;
      case 2:
        metrics.set(std::move(name), std::string(reader.text()));
        break;
      case 3: {
        HistogramReading reading;
        reading.sum_ns = reader.get<uint64_t>();
        reading.max_ns = reader.get<uint64_t>();
        const auto buckets = reader.get<uint32_t>();
        if (buckets > Histogram::kBuckets) return false;
        uint32_t next = 0;
        for (uint32_t b = 0; b < buckets && reader.ok(); ++b) {
          const auto index = reader.get<uint32_t>();
          const auto count = reader.get<uint64_t>();
          if (index >= Histogram::kBuckets || index < next) return false;
          next = index + 1;
          reading.buckets.emplace_back(index, count);
          reading.count += count;
        }
        metrics.set(std::move(name), std::move(reading));
        break;
      }
      default:
        return false;
    }
  }
  return reader.finished();
}

void encode_error(std::string_view cause, std::string_view remedy, Bytes& out) {
  ByteWriter writer(out);
  writer.text(cause.substr(0, 1024));
  writer.text(remedy.substr(0, 1024));
}

bool decode_error(std::span<const std::byte> bytes, std::string& cause, std::string& remedy) {
  ByteReader reader(bytes);
  cause = reader.text();
  remedy = reader.text();
  return reader.ok();
}

}  // namespace drlnet
