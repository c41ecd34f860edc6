#include "client/writer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "base/world.h"
#include "wire/codec.h"

namespace drlnet {

namespace {

// Rows of one append to a queue: what half of its ring has beside a batch. The other half may hold
// what streams have begun; with more, an append would push out items that it brings itself.
uint64_t most_rows(const TableSpec& spec, uint32_t shards) {
  const LimiterSpec& limiter = spec.limiter;
  if (limiter.max_times_sampled == 0) return UINT32_MAX;
  const uint64_t half = spec.capacity / shards / 2;
  const uint64_t batch = uint64_t{limiter.batch} * spec.item.window();
  return std::max<uint64_t>(half - std::min(half, batch), limiter.append_burst);
}

// Items of one append: half of what lies between the limiter's two ends. With more it could wait
// for draws that wait for it.
uint64_t most_items(const LimiterSpec& limiter) {
  if (limiter.samples_per_insert == 0) return UINT32_MAX;
  const double most = limiter.error_buffer / limiter.samples_per_insert;
  return static_cast<uint64_t>(std::clamp<double>(most, 1, UINT32_MAX));
}

}  // namespace

StreamWriter::StreamWriter(Client& client, uint32_t table, const TableSpec& spec,
                           std::vector<Lease> leases, WriterOptions options)
    : client_(client),
      table_(table),
      leases_(std::move(leases)),
      options_(options),
      most_items_(most_items(spec.limiter)),
      restarts_(client.restarts()) {
  for (const ColumnSpec& column : spec.columns) {
    column_bytes_.push_back(static_cast<uint32_t>(column.bytes()));
  }
  row_columns_.resize(column_bytes_.size());
  // It leaves once it has these, by up to a row less of each stream beyond them.
  const uint64_t most = most_rows(spec, client.shards()), streams = leases_.size();
  options_.flush_rows = static_cast<uint32_t>(
      std::min<uint64_t>(options_.flush_rows, most - std::min(most, streams) + 1));
}

StreamWriter::~StreamWriter() {
  for (const CallId id : under_way_) client_.abandon(id);
}

void StreamWriter::append(std::span<const std::byte* const> columns, std::span<const uint8_t> first,
                          std::span<const uint8_t> last, std::span<const uint8_t> mask,
                          std::span<int64_t> steps) {
  const auto streams = static_cast<uint32_t>(leases_.size());
  DRLNET_ASSERT(columns.size() == column_bytes_.size() && steps.size() == streams);
  DRLNET_ASSERT(first.size() == streams && last.size() == streams);
  DRLNET_ASSERT(mask.empty() || mask.size() == streams);
  const auto masked = [&](uint32_t stream) { return !mask.empty() && !mask[stream]; };
  for (uint32_t stream = 0; stream < streams;) {
    if (masked(stream)) {
      steps[stream++] = -1;
      continue;
    }
    uint32_t end = mask.empty() ? streams : stream + 1;
    while (end < streams && !masked(end)) ++end;
    const uint32_t count = make_room(end - stream, 0);
    for (size_t c = 0; c < column_bytes_.size(); ++c) {
      const size_t size = column_bytes_[c];
      const std::byte* rows = columns[c] + stream * size;
      row_columns_[c].insert(row_columns_[c].end(), rows, rows + count * size);
    }
    for (end = stream + count; stream < end; ++stream) {
      steps[stream] = static_cast<int64_t>(leases_[stream].next_step++);
      row_stream_.push_back(stream);
      row_flags_.push_back(
          static_cast<uint8_t>((first[stream] ? kFirst : 0) | (last[stream] ? kLast : 0)));
    }
  }
  if (due()) send();
}

void check_items(size_t writer_streams, std::span<const int64_t> streams,
                 std::span<const int64_t> steps, std::span<const float> priorities) {
  for (size_t i = 0; i < streams.size(); ++i) {
    if (streams[i] < 0 || static_cast<size_t>(streams[i]) >= writer_streams || steps[i] < 0) {
      throw Error(Status::config, "item " + std::to_string(i) + " names no row of this writer",
                  "use the writer's stream indices and the steps that append() returned");
    }
    if (!priorities.empty() && (!std::isfinite(priorities[i]) || priorities[i] < 0)) {
      throw Error(Status::bad_priority,
                  "priority " + std::to_string(i) + " is " + std::to_string(priorities[i]),
                  "send finite priorities of 0 or more; no item of this call was added");
    }
  }
}

void StreamWriter::add_items(std::span<const int64_t> streams, std::span<const int64_t> steps,
                             std::span<const float> priorities) {
  check_items(leases_.size(), streams, steps, priorities);
  for (size_t i = 0; i < streams.size();) {
    const size_t end = i + make_room(0, static_cast<uint32_t>(streams.size() - i));
    for (; i < end; ++i) {
      const Lease& lease = leases_[static_cast<size_t>(streams[i])];
      items_.push_back({lease.ordinal, lease.epoch, static_cast<uint64_t>(steps[i]),
                        priorities.empty() ? 0.0f : priorities[i],
                        priorities.empty() ? kUseMaximum : 0});
    }
  }
}

// How many of these rows, or items, still fit the request; it leaves first when none does.
uint32_t StreamWriter::make_room(uint32_t rows, uint32_t items) {
  while (staged_bytes(rows, items) > kMaxRequestBytes || items_.size() + items > most_items_) {
    if (rows + items == 1) {
      send();
      break;
    }
    rows /= 2;
    items /= 2;
  }
  if (row_stream_.empty() && items_.empty()) oldest_ns_ = now_ns();
  return rows + items;
}

uint64_t StreamWriter::staged_bytes(uint32_t more_rows, uint32_t more_items) const {
  const auto rows = static_cast<uint32_t>(row_stream_.size()) + more_rows;
  const uint32_t segments = std::min(rows, static_cast<uint32_t>(leases_.size()));
  return append_bytes(column_bytes_, segments, rows,
                      static_cast<uint32_t>(items_.size()) + more_items);
}

bool StreamWriter::due() const {
  return row_stream_.size() >= options_.flush_rows ||
         (!row_stream_.empty() && now_ns() > oldest_ns_ + options_.flush_interval_ns);
}

// Rows leave stream after stream; the rows of one stream keep their order.
void StreamWriter::fill(std::vector<std::byte>& body) {
  const auto rows = static_cast<uint32_t>(row_stream_.size());
  counts_.assign(leases_.size() + 1, 0);
  for (const uint32_t stream : row_stream_) ++counts_[stream + 1];
  uint32_t segments = 0;
  for (const uint32_t count : counts_) segments += count > 0;
  body.reserve(append_bytes(column_bytes_, segments, rows, static_cast<uint32_t>(items_.size())));
  ByteWriter writer(body);
  writer.put(AppendHeader{table_, segments, rows, static_cast<uint32_t>(items_.size())});
  for (size_t stream = 0; stream < leases_.size(); ++stream) {
    const uint32_t count = counts_[stream + 1];
    if (count == 0) continue;
    const Lease& lease = leases_[stream];
    writer.put(
        AppendSegment{lease.ordinal, lease.epoch, lease.token, lease.next_step - count, count, 0});
  }
  for (size_t stream = 0; stream < leases_.size(); ++stream) counts_[stream + 1] += counts_[stream];
  order_.resize(rows);
  for (uint32_t row = 0; row < rows; ++row) order_[counts_[row_stream_[row]]++] = row;
  for (const uint32_t row : order_) writer.put(row_flags_[row]);
  writer.align8();
  for (size_t c = 0; c < column_bytes_.size(); ++c) {
    const size_t size = column_bytes_[c];
    const size_t start = body.size();
    body.resize((start + size * rows + 7) & ~size_t{7});
    std::byte* to = body.data() + start;
    for (uint32_t i = 0; i < rows; ++i) {
      std::memcpy(to + i * size, row_columns_[c].data() + order_[i] * size, size);
    }
    row_columns_[c].clear();
  }
  writer.raw(std::as_bytes(std::span<const AppendItem>(items_)));
  row_stream_.clear();
  row_flags_.clear();
  items_.clear();
}

void StreamWriter::send() {
  if (row_stream_.empty() && items_.empty()) return;
  look_at_replies(false);
  send_again();
  while (under_way_.size() >= kLaneWindow[static_cast<size_t>(Lane::append)]) finish_oldest();
  under_way_.push_back(start([&](auto& body) { fill(body); }));
}

// Waits again and again while it returns false, which is told.
void StreamWriter::unless_held(FunctionRef<bool(Deadline deadline, uint64_t patience_ns)> wait) {
  constexpr uint64_t kPatienceNs = 1'000'000'000;
  if (!options_.held) return;
  const uint64_t began = waking_ns();
  while (!wait(deadline_in(kPatienceNs + options_.timeout_ns), kPatienceNs)) {
    options_.held(waking_ns() - began);
  }
}

// Other writers of this client may have the lane full, with appends that the limiter holds.
CallId StreamWriter::start(Client::Fill fill) {
  unless_held([&](Deadline deadline, uint64_t patience_ns) {
    return client_.wait_for_room(Operation::append, deadline, patience_ns);
  });
  return client_.start(Operation::append, deadline_in(options_.timeout_ns), fill);
}

void StreamWriter::look_at_replies(bool all) {
  while (!under_way_.empty() && (all || client_.finished(under_way_.front()))) finish_oldest();
}

void StreamWriter::finish_oldest() {
  const CallId id = under_way_.front();
  wait_for(id);
  // Its answer may be that of the life before; to send it again changes nothing then.
  if (client_.restarts() != restarts_) return send_again();
  under_way_.pop_front();
  Sent sent;
  Status status{};
  std::vector<std::byte> refusal;
  const AppendResult result = take_reply(id, sent, status, refusal);
  check(status, result, refusal);
  count(result, false);
  sent.counted = true;
  keep(std::move(sent), result);
}

// Until the call is answered, or the deadline.
void StreamWriter::wait_for(CallId id) {
  unless_held([&](Deadline deadline, uint64_t patience_ns) {
    return client_.wait(id, deadline, patience_ns);
  });
  client_.wait(id, deadline_in(options_.timeout_ns));
}

AppendResult StreamWriter::take_reply(CallId id, Sent& sent, Status& status,
                                      std::vector<std::byte>& refusal) {
  AppendResult result;
  client_.collect(
      id, deadline_in(options_.timeout_ns),
      [&](Status s, auto reply) {
        status = s;
        if (status == Status::unknown_table || status == Status::table_dropped ||
            status == Status::forbidden || status == Status::server_full ||
            status == Status::config) {
          refusal.assign(reply.begin(), reply.end());  // not looked at: no result
        } else {
          result = ByteReader(reply).get<AppendResult>();
        }
      },
      sent.body);
  return result;
}

void StreamWriter::check(Status status, const AppendResult& result,
                         std::span<const std::byte> refusal) const {
  if (status == Status::ok) return;
  const std::string stream = "stream " + std::to_string(result.ordinal);
  switch (status) {
    case Status::stream_gap:
      throw Error(status,
                  stream + ": the server expects step " + std::to_string(result.expected_step) +
                      ", an append began behind it" +
                      (restarts_ > 0 ? "; it was started again and lost what came between" : ""),
                  "resume the stream from the step that the server expects");
    case Status::unknown_lease:
      throw Error(status, stream + ": its lease is not held any more",
                  "lease the streams again; what was stored stays");
    case Status::bad_priority:
      throw Error(status, "a priority is NaN, infinite or negative",
                  "send finite priorities of 0 or more; nothing of this append was stored");
    case Status::bad_request:
      throw Error(status, stream + ": a row's FIRST or LAST does not fit the row before it",
                  "begin every episode with first, and follow last by first");
    default:
      throw_if_refused(status, refusal);
  }
}

// Sent again, an append may be known: the server may have had it, and not its answer this client.
void StreamWriter::count(const AppendResult& result, bool sent_again) {
  rows_stored_ += result.rows_stored + (sent_again ? result.rows_ignored : 0);
  items_created_ += result.items_created + (sent_again ? result.items_ignored : 0);
  items_refused_ += result.items_refused;
}

void StreamWriter::keep(Sent sent, const AppendResult& result) {
  const auto forget_oldest = [&] {
    kept_bytes_ -= kept_.front().body.size();
    kept_.pop_front();
  };
  while (!kept_.empty() && kept_.front().record <= result.written) forget_oldest();
  if (result.record <= result.written) return;  // or the server keeps no state
  sent.record = result.record;
  kept_bytes_ += sent.body.size();
  kept_.push_back(std::move(sent));
  while (kept_bytes_ > kMostKept) forget_oldest();
}

// Where the server was started again: all that may not have been on disk, in its order. The server
// takes each row once. What an error leaves is for the next call.
void StreamWriter::send_again() {
  Status status{};
  std::vector<std::byte> refusal;
  for (;;) {
    if (const uint64_t restarts = client_.restarts(); restarts != restarts_) {
      again_.insert(again_.begin(), std::make_move_iterator(kept_.begin()),
                    std::make_move_iterator(kept_.end()));
      kept_.clear();
      kept_bytes_ = 0;
      for (; !under_way_.empty(); under_way_.pop_front()) {
        wait_for(under_way_.front());
        take_reply(under_way_.front(), again_.emplace_back(), status, refusal);
      }
      restarts_ = restarts;
    }
    if (again_.empty()) return;
    const CallId id = start([&](auto& body) { body = again_.front().body; });
    try {
      wait_for(id);
    } catch (...) {
      client_.abandon(id);
      throw;
    }
    Sent sent;
    const AppendResult result = take_reply(id, sent, status, refusal);
    if (client_.restarts() != restarts_) continue;  // once more, from the first
    check(status, result, refusal);
    if (!again_.front().counted) count(result, true);
    again_.pop_front();
    sent.counted = true;
    keep(std::move(sent), result);
  }
}

void StreamWriter::flush() {
  const bool sends = !row_stream_.empty() || !items_.empty();
  send();
  look_at_replies(true);
  // Only an answer of now tells of a restart.
  if (!sends && !kept_.empty()) {
    const Deadline deadline = deadline_in(options_.timeout_ns);
    client_.collect(client_.start(Operation::ping, deadline, [](auto&) {}), deadline,
                    [](Status status, auto reply) { throw_if_refused(status, reply); });
  }
  send_again();
}

void StreamWriter::release() {
  if (released_) return;
  released_ = true;
  std::vector<StreamName> names;
  for (const Lease& lease : leases_) names.push_back({lease.ordinal, lease.epoch, lease.token});
  client_.release(table_, names);
}

}  // namespace drlnet
