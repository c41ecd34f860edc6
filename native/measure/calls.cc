#include "measure/calls.h"

#include <array>
#include <cstring>
#include <deque>
#include <numeric>

#include "base/assert.h"
#include "base/random.h"
#include "wire/codec.h"

namespace drlnet::measure {
namespace {

constexpr uint64_t kSampleTimeoutNs = 10'000'000'000;
constexpr uint64_t kNeverNs = 1'000'000'000'000'000;

void append_one(StreamWriter& writer, std::span<const std::byte> row) {
  constexpr std::array<uint8_t, 1> kYes = {1}, kNo = {0};
  constexpr std::array<int64_t, 1> kStream = {0};
  const std::array<const std::byte*, 1> columns = {row.data()};
  std::array<int64_t, 1> step{};
  const bool first = writer.leases().front().next_step == 0;
  writer.append(columns, first ? kYes : kNo, kNo, {}, step);
  writer.add_items(kStream, step, {});
  writer.flush();
}

// Appends random rows of the table's only column, one to each of kFillStreams streams.
class Filler {
 public:
  Filler(Client& client, uint32_t table, const TableSpec& spec, const WriterOptions& options)
      : writer(client, table, spec, client.lease(table, kFillStreams), options),
        values_(kFillStreams * spec.columns[0].bytes()) {
    DRLNET_ASSERT(spec.columns.size() == 1);
    Random random(0);
    for (std::byte& value : values_) value = static_cast<std::byte>(random.bits());
    std::iota(streams_.begin(), streams_.end(), 0);
    priorities_.fill(1);
    first_.fill(1);
  }

  void append() {
    const std::array<const std::byte*, 1> columns = {values_.data()};
    std::array<int64_t, kFillStreams> steps{};
    writer.append(columns, first_, last_, {}, steps);
    writer.add_items(streams_, steps, priorities_);
    first_.fill(0);
  }

  StreamWriter writer;

 private:
  std::vector<std::byte> values_;
  std::array<int64_t, kFillStreams> streams_{};
  std::array<float, kFillStreams> priorities_{};
  std::array<uint8_t, kFillStreams> first_{}, last_{};
};

}  // namespace

void fill(Client& client, uint32_t table, const TableSpec& spec, uint64_t rows) {
  DRLNET_ASSERT(rows % kFillStreams == 0);
  Filler filler(client, table, spec, {2 * kFillStreams, kNeverNs});
  for (uint64_t row = 0; row < rows; row += kFillStreams) {
    filler.append();
    filler.writer.flush();
  }
  filler.writer.release();
}

size_t streamed_appends(Client& client, uint32_t table, const TableSpec& spec, uint64_t rows,
                        const Loop& loop) {
  DRLNET_ASSERT(rows % kFillStreams == 0);
  Filler filler(client, table, spec, {});
  const size_t count = run(loop, [&] {
    for (uint64_t row = 0; row < rows; row += kFillStreams) filler.append();
  });
  filler.writer.flush();
  filler.writer.release();
  return count;
}

size_t pings(Client& client, size_t payload_bytes, const Loop& loop) {
  const std::vector<std::byte> payload(payload_bytes, std::byte{0x5a});
  return run(loop, [&] { client.ping(payload); });
}

size_t appends(StreamWriter& writer, std::span<const std::byte> row, const Loop& loop) {
  return run(loop, [&] { append_one(writer, row); });
}

size_t paced_appends(StreamWriter& writer, std::span<const std::byte> row, Schedule& schedule,
                     std::span<uint64_t> since_due_ns, const Loop& loop) {
  DRLNET_ASSERT(since_due_ns.size() == loop.latencies_ns.size());
  const uint64_t begun = now_ns(), end = begun + loop.budget_ns;
  if (schedule.due_ns == 0) schedule.due_ns = begun;
  size_t count = 0;
  for (; count < since_due_ns.size(); ++count, schedule.due_ns += schedule.interval_ns) {
    sleep_until(schedule.due_ns);
    const uint64_t before = now_ns();
    if (before >= end) break;
    append_one(writer, row);
    const uint64_t after = now_ns();  // one reading for both: they differ by the wait alone
    loop.latencies_ns[count] = after - before;
    since_due_ns[count] = after - schedule.due_ns;
  }
  return count;
}

size_t samples(Client& client, uint32_t table, uint32_t batch, std::span<std::byte> destination,
               const Loop& loop) {
  return run(loop,
             [&] { client.sample(table, batch, destination, deadline_in(kSampleTimeoutNs)); });
}

size_t reads(Client& client, uint32_t table, std::span<const uint64_t> keys,
             std::span<std::byte> destination, const Loop& loop) {
  DRLNET_ASSERT(!keys.empty());
  size_t next = 0;
  return run(loop, [&] {
    client.read_items(table, keys.subspan(next, 1), destination, deadline_in(kSampleTimeoutNs));
    next = (next + 1) % keys.size();
  });
}

size_t updates(Client& client, uint32_t table, std::span<const uint64_t> keys,
               std::span<const float> priorities, const Loop& loop) {
  return run(loop, [&] { client.update_priorities(table, keys, priorities); });
}

size_t fetches(Client& client, const Loop& loop) {
  std::vector<std::byte> params;
  return run(loop, [&] { client.fetch(0, params); });
}

size_t streamed_samples(Client& client, uint32_t table, uint32_t batch,
                        std::span<const std::span<std::byte>> destinations, const Loop& loop) {
  DRLNET_ASSERT(!destinations.empty());
  std::deque<CallId> ahead;
  const auto ask = [&](std::span<std::byte> destination) {
    ahead.push_back(client.start(
        Operation::sample, deadline_in(kSampleTimeoutNs),
        [&](auto& body) { ByteWriter(body).put(SampleRequest{table, batch}); }, destination));
  };
  const auto take = [&] {
    const CallId id = ahead.front();
    ahead.pop_front();
    client.collect(id, deadline_in(kSampleTimeoutNs),
                   [](Status status, auto reply) { throw_if_refused(status, reply); });
  };
  size_t count = 0;
  try {
    for (const auto& destination : destinations) ask(destination);
    size_t next = 0;
    count = run(loop, [&] {
      take();
      ask(destinations[next]);
      next = (next + 1) % destinations.size();
    });
    while (!ahead.empty()) take();
  } catch (...) {
    for (const CallId id : ahead) client.abandon(id);  // the destinations are the caller's again
    throw;
  }
  return count;
}

size_t copies(size_t row_bytes, size_t rows, size_t batch, const Loop& loop) {
  std::vector<std::byte> from(row_bytes * rows, std::byte{1}), to(row_bytes * batch);
  Random random(1);
  return run(loop, [&] {
    for (size_t i = 0; i < batch; ++i) {
      std::memcpy(to.data() + i * row_bytes, from.data() + random.below(rows) * row_bytes,
                  row_bytes);
    }
    asm volatile(""
                 :
                 : "r"(to.data())
                 : "memory");  // it is not read, but must be copied all the same
  });
}

}  // namespace drlnet::measure
