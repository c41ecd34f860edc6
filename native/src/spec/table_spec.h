// What a table is: its columns, its item and its settings, as they travel in an open request.
// All openers of one name must agree on every field (compare() says where they do not).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace drlnet {

enum class DataType : uint8_t {
  boolean = 0,
  u8 = 1,
  i8 = 2,
  u16 = 3,
  i16 = 4,
  u32 = 5,
  i32 = 6,
  u64 = 7,
  i64 = 8,
  f16 = 9,
  f32 = 10,
  f64 = 11,
};
constexpr uint32_t kDataTypeCount = 12;
uint32_t data_type_bytes(DataType type);
const char* data_type_name(DataType type);  // numpy's name: "float32"

struct ColumnSpec {
  std::string name;  // dots are allowed: "obs.camera"
  DataType type = DataType::f32;
  std::vector<uint32_t> shape;  // of one row; empty is a scalar
  uint64_t bytes() const;       // of one row
  bool operator==(const ColumnSpec&) const = default;
};

enum class Pad : uint8_t { repeat = 0, zero = 1 };

// Where lo and hi count from: the anchor, or the item's effective end m = min(horizon, steps left),
// in which case [lo, hi] is written as if m were the horizon and shifts down by horizon - m.
enum class Align : uint8_t { anchor = 0, end = 1 };

struct ViewSpec {
  std::string name;
  uint16_t column = 0;     // index into TableSpec::columns
  int32_t lo = 0, hi = 0;  // inclusive, in steps relative to the anchor (see Align)
  Pad pad = Pad::repeat;   // what stands before FIRST and (Boundary::stop) behind the episode's end
  Align align = Align::anchor;
  bool operator==(const ViewSpec&) const = default;
};

// stop: an item ends with its episode and reports its true length m.
// cross: an item runs over episode boundaries and is complete only when all its rows exist.
enum class Boundary : uint8_t { stop = 0, cross = 1 };

struct ItemSpec {
  std::vector<ViewSpec> views;
  Boundary boundary = Boundary::stop;
  // Items anchor only at every period-th step: of the stream where they cross episodes, so that
  // they neither overlap nor leave gaps; else of the episode.
  uint32_t period = 1;
  uint32_t back() const;     // rows needed before the anchor: max(0, -lowest lo), shifts included
  uint32_t horizon() const;  // n: max(0, highest hi)
  uint32_t window() const { return back() + 1 + horizon(); }
  bool operator==(const ItemSpec&) const = default;
};

struct SamplerSpec {
  std::string name = "prioritized";
  double priority_exponent = 0.6;  // alpha: stored is max(p, priority_floor)^alpha
  double priority_floor = 1e-6;
  std::map<std::string, double> options;  // for samplers with settings of their own
  bool operator==(const SamplerSpec&) const = default;
};

struct LimiterSpec {
  uint64_t min_size = 1;          // live items before the first draw
  double samples_per_insert = 0;  // item draws per item creation; 0: no limit
  double error_buffer = 0;        // in draws: how far the ratio may be off either way
  uint32_t batch = 0, prefetch = 0,
           append_burst = 0;  // what the clients intend: for the deadlock check
  // Above 0 the table is a queue: an item retires after that many draws, and an append waits while
  // it would overwrite an item that has draws left.
  uint32_t max_times_sampled = 0;
  // What the clients may have outstanding, draws and an append at the same time: with less they
  // could block each other.
  double least_error_buffer() const;
  bool operator==(const LimiterSpec&) const = default;
};

struct TableSpec {
  std::string name;
  uint64_t capacity = 0;  // rows
  std::vector<ColumnSpec> columns;
  ItemSpec item;
  SamplerSpec sampler;
  LimiterSpec limiter;
  uint64_t seed = 0;
  uint64_t row_bytes() const;
  bool operator==(const TableSpec&) const = default;
};

// Rows of a table that one of a server's shards holds.
constexpr uint64_t shard_capacity(uint64_t capacity, uint32_t shards, uint32_t shard) {
  return capacity / shards + (shard < capacity % shards ? 1 : 0);
}

// Throws Error(config) for a specification that cannot work, settings that can deadlock included:
// an error buffer under batch x (prefetch + 1) + samples_per_insert x append_burst, or a queue of
// that many shards where a single one, once full, can not hold what is asked for ahead.
void check(const TableSpec& spec, uint32_t shards = 1);

// Names the first field in which two specifications differ ("column 'obs': float32[4] here,
// float32[6] at the server"), nothing when they agree.
std::optional<std::string> compare(const TableSpec& ours, const TableSpec& theirs);

}  // namespace drlnet
