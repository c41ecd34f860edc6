#include "spec/table_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

#include "base/error.h"

namespace drlnet {
namespace {

constexpr struct {
  uint32_t bytes;
  const char* name;
} kTypes[kDataTypeCount] = {{1, "bool"},  {1, "uint8"},   {1, "int8"},    {2, "uint16"},
                            {2, "int16"}, {4, "uint32"},  {4, "int32"},   {8, "uint64"},
                            {8, "int64"}, {2, "float16"}, {4, "float32"}, {8, "float64"}};

std::string describe(const ColumnSpec& column) {
  std::string text = data_type_name(column.type);
  text += '[';
  for (size_t i = 0; i < column.shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(column.shape[i]);
  }
  return text + ']';
}

std::string describe(const ViewSpec& view) {
  return "column " + std::to_string(view.column) + " [" + std::to_string(view.lo) + ", " +
         std::to_string(view.hi) + "] pad " + (view.pad == Pad::repeat ? "repeat" : "zero") +
         (view.align == Align::end ? " from the end" : "");
}

[[noreturn]] void refuse(std::string cause, std::string remedy) {
  throw Error(Status::config, std::move(cause), std::move(remedy));
}

void check_item(const TableSpec& spec, uint32_t shards) {
  const ItemSpec& item = spec.item;
  if (item.views.empty() || item.views.size() > 64) {
    refuse("table '" + spec.name + "': an item has 1 to 64 views", "declare what a sample shows");
  }
  std::set<std::string> names;
  for (const ViewSpec& view : item.views) {
    const std::string where = "table '" + spec.name + "', view '" + view.name + "': ";
    if (view.name.empty() || !names.insert(view.name).second) {
      refuse(where + "its name is empty or taken", "give each view a name of its own");
    }
    if (view.column >= spec.columns.size()) {
      refuse(where + "no such column", "name one of the table's columns");
    }
    if (view.lo > view.hi || view.lo < -65536 || view.hi > 65536) {
      refuse(where + "lo must not exceed hi, and both lie within 65,536 of the anchor",
             "write rows as (lo, hi)");
    }
  }
  if (item.period == 0) refuse("table '" + spec.name + "': period is 0", "use 1 or more");
  const uint64_t least = 2 * static_cast<uint64_t>(item.window());
  if (spec.capacity / shards < least) {
    const std::string each = std::to_string(spec.capacity / shards) + " in each of its shards";
    refuse("table '" + spec.name + "': capacity " + std::to_string(spec.capacity) +
               (shards > 1 ? ", " + each + "," : "") + " is under twice the item's window of " +
               std::to_string(item.window()) + " rows",
           "set it to " + std::to_string(least * shards) + " or more");
  }
}

std::string whole(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

// A queue must hold what its clients ask for ahead, beside one append that waits; and so must any
// shard of it, whose full ring holds up a client that appends to others, too.
void check_queue(const TableSpec& spec, uint32_t shards) {
  const LimiterSpec& limiter = spec.limiter;
  const uint64_t most = limiter.max_times_sampled;
  if (most == 0) return;
  if (most > 65'535) {
    refuse(
        "table '" + spec.name + "': max_times_sampled " + std::to_string(most) + " exceeds 65,535",
        "lower it, or leave it at 0: items are drawn as long as they are held");
  }
  if (limiter.samples_per_insert > static_cast<double>(most)) {
    refuse("table '" + spec.name + "': samples_per_insert exceeds max_times_sampled " +
               std::to_string(most) + ": an item can not be drawn so often",
           "lower samples_per_insert, or leave it at 0");
  }
  const uint64_t draws = uint64_t{limiter.batch} * (uint64_t{limiter.prefetch} + 1);
  const uint64_t items = std::max((draws + most - 1) / most, limiter.min_size);
  const uint64_t window = spec.item.window();
  const uint64_t held = std::max(items * spec.item.period + window, limiter.batch * window);
  const uint64_t least = held + limiter.append_burst;
  if (spec.capacity / shards < least) {
    refuse("table '" + spec.name + "': these settings can deadlock: a queue of " +
               std::to_string(spec.capacity / shards) + " rows" +
               (shards > 1 ? " in each shard" : "") + " can not hold " + std::to_string(items) +
               " items that are asked for and an append of " +
               std::to_string(limiter.append_burst) + " rows",
           "set capacity to " + std::to_string(least * shards) + " or more");
  }
}

void check_limiter(const TableSpec& spec, uint32_t shards) {
  const LimiterSpec& limiter = spec.limiter;
  const double ratio = limiter.samples_per_insert;
  const auto in_range = [](double value) { return value >= 0 && value <= 1e15; };  // NaN is not
  if (!in_range(ratio) || !in_range(limiter.error_buffer)) {
    refuse("table '" + spec.name + "': samples_per_insert and error_buffer must lie in [0, 1e15]",
           "correct the limiter's settings");
  }
  uint64_t held = 0;
  for (uint32_t shard = 0; shard < shards; ++shard) {  // in each, one long episode holds the fewest
    const uint64_t rows = shard_capacity(spec.capacity, shards, shard) - spec.item.window();
    held += rows / spec.item.period + 1;
  }
  if (limiter.min_size > held) {
    refuse("table '" + spec.name + "': min_size " + std::to_string(limiter.min_size) +
               " exceeds the " + std::to_string(held) + " items, one every " +
               std::to_string(spec.item.period) + " steps, that a capacity of " +
               std::to_string(spec.capacity) + " rows" +
               (shards > 1 ? " in " + std::to_string(shards) + " shards" : "") +
               " holds: no sample could ever be drawn",
           "lower min_size or raise the capacity");
  }
  check_queue(spec, shards);
  const double needed = limiter.least_error_buffer();
  if (ratio > 0 && limiter.error_buffer < needed) {
    const std::string least = whole(std::ceil(needed));
    refuse("table '" + spec.name + "': these settings can deadlock: error_buffer " +
               whole(limiter.error_buffer) +
               " is under batch x (prefetch + 1) + samples_per_insert x append_burst = " + least,
           "set error_buffer to " + least + " or more");
  }
}

}  // namespace

uint32_t data_type_bytes(DataType type) { return kTypes[static_cast<size_t>(type)].bytes; }
const char* data_type_name(DataType type) { return kTypes[static_cast<size_t>(type)].name; }

uint64_t ColumnSpec::bytes() const {
  uint64_t total = data_type_bytes(type);
  for (const uint32_t extent : shape) total *= extent;
  return total;
}

double LimiterSpec::least_error_buffer() const {
  return batch * (prefetch + 1.0) + samples_per_insert * std::max(append_burst, 1u);
}

uint64_t TableSpec::row_bytes() const {
  uint64_t total = 0;
  for (const ColumnSpec& column : columns) total += column.bytes();
  return total;
}

uint32_t ItemSpec::horizon() const {
  int32_t highest = 0;
  for (const ViewSpec& view : views) highest = std::max(highest, view.hi);
  return static_cast<uint32_t>(highest);
}

uint32_t ItemSpec::back() const {
  int32_t lowest = 0;
  const auto n = static_cast<int32_t>(horizon());
  for (const ViewSpec& view : views) {
    const bool shifts = view.align == Align::end && boundary == Boundary::stop && n > 1;
    lowest = std::min(lowest, view.lo - (shifts ? n - 1 : 0));
  }
  return static_cast<uint32_t>(-lowest);
}

void check(const TableSpec& spec, uint32_t shards) {
  if (spec.name.empty() || spec.name.size() > 255) {
    refuse("a table's name has 1 to 255 characters", "name the table");
  }
  if (spec.columns.empty() || spec.columns.size() > 64) {
    refuse("table '" + spec.name + "': a table has 1 to 64 columns", "declare its columns");
  }
  std::set<std::string> names;
  for (const ColumnSpec& column : spec.columns) {
    const std::string where = "table '" + spec.name + "', column '" + column.name + "': ";
    if (column.name.empty() || !names.insert(column.name).second) {
      refuse(where + "its name is empty or taken", "give each column a name of its own");
    }
    uint64_t bytes = data_type_bytes(column.type);
    for (const uint32_t extent : column.shape) {
      if (extent == 0) refuse(where + "an extent of its shape is 0", "give it a size");
      if (extent > (uint64_t{1} << 32) / bytes)
        bytes = uint64_t{1} << 33;
      else
        bytes *= extent;
    }
    if (column.shape.size() > 8 || bytes > 128 * 1024) {
      refuse(where + "a row of a column has at most 8 dimensions and 128 KiB",
             "split it into several columns");
    }
  }
  if (spec.row_bytes() > 192 * 1024) {
    refuse("table '" + spec.name + "': a row is over 192 KiB", "store less per step");
  }
  if (spec.capacity == 0 || spec.capacity > (uint64_t{1} << 30)) {
    refuse("table '" + spec.name + "': capacity must lie between 1 and 2^30 rows",
           "choose another capacity");
  }
  const double alpha = spec.sampler.priority_exponent, floor = spec.sampler.priority_floor;
  constexpr double kMost = std::numeric_limits<float>::max();  // else a sampler has infinite masses
  if (!(alpha >= 0 && alpha <= 4) || !(floor > 0 && floor <= kMost)) {  // NaN does not
    refuse("table '" + spec.name +
               "': priority_exponent must lie in [0, 4], priority_floor above 0 and in float32's "
               "range",
           "correct the sampler's settings");
  }
  for (const auto& [name, value] : spec.sampler.options) {
    if (!std::isfinite(value)) {
      refuse("table '" + spec.name + "': sampler option '" + name + "' is not finite",
             "correct the sampler's settings");
    }
  }
  check_item(spec, shards);
  check_limiter(spec, shards);
}

namespace {

// The first field that differs, described.
class Comparison {
 public:
  template <typename T>
  void field(const std::string& name, const T& ours, const T& theirs) {
    if (text_ || ours == theirs) return;
    text_ = name + ": " + show(ours) + " here, " + show(theirs) + " at the server";
  }
  std::optional<std::string> text() && { return std::move(text_); }

 private:
  static std::string show(const std::string& value) { return value; }
  template <typename T>
  static std::string show(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      char buffer[32];
      std::snprintf(buffer, sizeof buffer, "%g", value);
      return buffer;
    } else {
      return std::to_string(value);
    }
  }
  std::optional<std::string> text_;
};

}  // namespace

std::optional<std::string> compare(const TableSpec& ours, const TableSpec& theirs) {
  Comparison comparison;
  comparison.field("capacity", ours.capacity, theirs.capacity);
  comparison.field("number of columns", ours.columns.size(), theirs.columns.size());
  for (size_t i = 0; i < std::min(ours.columns.size(), theirs.columns.size()); ++i) {
    comparison.field("name of column " + std::to_string(i), ours.columns[i].name,
                     theirs.columns[i].name);
    comparison.field("column '" + ours.columns[i].name + "'", describe(ours.columns[i]),
                     describe(theirs.columns[i]));
  }
  comparison.field("number of views", ours.item.views.size(), theirs.item.views.size());
  for (size_t i = 0; i < std::min(ours.item.views.size(), theirs.item.views.size()); ++i) {
    comparison.field("name of view " + std::to_string(i), ours.item.views[i].name,
                     theirs.item.views[i].name);
    comparison.field("view '" + ours.item.views[i].name + "'", describe(ours.item.views[i]),
                     describe(theirs.item.views[i]));
  }
  comparison.field("boundary rule", static_cast<int>(ours.item.boundary),
                   static_cast<int>(theirs.item.boundary));
  comparison.field("period", ours.item.period, theirs.item.period);
  comparison.field("sampler", ours.sampler.name, theirs.sampler.name);
  comparison.field("priority_exponent", ours.sampler.priority_exponent,
                   theirs.sampler.priority_exponent);
  comparison.field("priority_floor", ours.sampler.priority_floor, theirs.sampler.priority_floor);
  if (ours.sampler.options != theirs.sampler.options) {
    comparison.field("sampler options", std::string("others"), std::string("different ones"));
  }
  const LimiterSpec &a = ours.limiter, &b = theirs.limiter;
  comparison.field("min_size", a.min_size, b.min_size);
  comparison.field("samples_per_insert", a.samples_per_insert, b.samples_per_insert);
  comparison.field("error_buffer", a.error_buffer, b.error_buffer);
  comparison.field("limiter batch", a.batch, b.batch);
  comparison.field("limiter prefetch", a.prefetch, b.prefetch);
  comparison.field("limiter append_burst", a.append_burst, b.append_burst);
  comparison.field("max_times_sampled", a.max_times_sampled, b.max_times_sampled);
  comparison.field("seed", ours.seed, theirs.seed);
  return std::move(comparison).text();
}

}  // namespace drlnet
