// Loops over a client's calls, each call timed (measure/loop.h).
// Threading: the client's (client/client.h). Errors: those of the calls.
#pragma once

#include <cstdint>
#include <span>

#include "client/client.h"
#include "client/writer.h"
#include "measure/loop.h"

namespace drlnet::measure {

// The measuring side's session.
class Session final : public Client {
 public:
  using Client::Client;
};

// Fills a table that has one column with random rows, an item of priority 1 on each: `rows` is a
// multiple of kFillStreams, since as many streams append in turn.
inline constexpr uint32_t kFillStreams = 64;
void fill(Client& client, uint32_t table, const TableSpec& spec, uint64_t rows);

// The same, with as many appends under way as a writer has by itself; a call is `rows` of them.
size_t streamed_appends(Client& client, uint32_t table, const TableSpec& spec, uint64_t rows,
                        const Loop& loop);

size_t pings(Client& client, size_t payload_bytes, const Loop& loop);

// One row of the table's only column and its item, in one request, until it is acknowledged. The
// writer has one stream and flushes at two rows or more.
size_t appends(StreamWriter& writer, std::span<const std::byte> row, const Loop& loop);

// When appends are due: at equal intervals from the first on, over all loops that are given it.
struct Schedule {
  uint64_t interval_ns = 0;
  uint64_t due_ns = 0;  // of the next; 0: when it is first asked for
};
// The same at fixed times, asleep between them. A late append leaves the schedule as it is: those
// behind it follow at once, and since_due_ns, as long as the loop's latencies, has what each waited
// for its turn, too. Latencies alone would leave that out (coordinated omission).
size_t paced_appends(StreamWriter& writer, std::span<const std::byte> row, Schedule& schedule,
                     std::span<uint64_t> since_due_ns, const Loop& loop);

size_t samples(Client& client, uint32_t table, uint32_t batch, std::span<std::byte> destination,
               const Loop& loop);

// One item of those keys after another, each by itself.
size_t reads(Client& client, uint32_t table, std::span<const uint64_t> keys,
             std::span<std::byte> destination, const Loop& loop);

size_t updates(Client& client, uint32_t table, std::span<const uint64_t> keys,
               std::span<const float> priorities, const Loop& loop);

size_t fetches(Client& client, const Loop& loop);

// Samples with one request under way for each destination; a latency is the time between two
// arrivals. As a sample stream does, but with no thread that receives while its user computes:
// there is nothing to compute here.
size_t streamed_samples(Client& client, uint32_t table, uint32_t batch,
                        std::span<const std::span<std::byte>> destinations, const Loop& loop);

// What no network can beat: `batch` rows of row_bytes, drawn from `rows`, copied into one place.
size_t copies(size_t row_bytes, size_t rows, size_t batch, const Loop& loop);

}  // namespace drlnet::measure
