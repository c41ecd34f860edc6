#include "measure/table.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/random.h"
#include "server/sample.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace drlnet::measure {
namespace {

constexpr uint32_t kSegmentRows = FullTable::kRowsPerAppend / FullTable::kStreams;
constexpr uint32_t kRoom = kJumboFrameBytes - kHeaderBytes;  // of a reply's bytes in a frame

// The append of every stream's next rows, and the items on them.
struct Turn {
  std::vector<AppendSegment> segments;
  std::vector<uint8_t> flags;
  std::vector<AppendItem> items;

  Turn(std::span<const Lease> leases, uint64_t first_step, Random& random) {
    for (const Lease& lease : leases) {
      segments.push_back({lease.ordinal, lease.epoch, lease.token, first_step, kSegmentRows, 0});
      for (uint64_t step = first_step; step < first_step + kSegmentRows; ++step) {
        const uint64_t since_first = step % FullTable::kEpisode;
        const bool last = since_first == FullTable::kEpisode - 1;
        flags.push_back(static_cast<uint8_t>((since_first == 0 ? kFirst : 0) | (last ? kLast : 0)));
        if (last) continue;
        const auto priority = static_cast<float>(random.uniform());
        items.push_back({lease.ordinal, lease.epoch, step, priority, 0});
      }
    }
  }
};

}  // namespace

FullTable::FullTable(TableSpec spec) : table_(std::move(spec), 0, 0) { fill(); }

void FullTable::fill() {
  Random random(table_.spec().seed);
  std::vector<Lease> leases;
  for (uint32_t i = 0; i < kStreams; ++i) leases.push_back(table_.streams().lease(1, 0));
  std::vector<std::vector<std::byte>> rows;
  std::vector<std::span<const std::byte>> columns;
  for (const ColumnSpec& column : table_.spec().columns) {
    auto& bytes = rows.emplace_back(kRowsPerAppend * column.bytes());
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
    columns.emplace_back(bytes);
  }
  for (uint64_t step = 0; step * kStreams < table_.spec().capacity; step += kSegmentRows) {
    const Turn turn(leases, step, random);
    AppendResult result;
    const Status status =
        table_.append({turn.segments, turn.flags, columns, turn.items, 1}, result);
    DRLNET_ASSERT(status == Status::ok);
  }
}

size_t FullTable::samples(uint32_t batch, const Loop& loop) {
  reply_.resize(table_.layout().total_bytes(batch));
  return run(loop, [&] {
    const uint16_t wait = answer_sample(table_, {0, batch}, 0, slot_);
    DRLNET_ASSERT(wait == 0);
    for (uint64_t offset = 0; offset < reply_.size(); offset += kRoom) {
      const uint64_t bytes = std::min<uint64_t>(kRoom, reply_.size() - offset);
      Loans loans;
      const bool whole =
          slot_.source->gather(offset, std::span(reply_).subspan(offset, bytes), loans);
      DRLNET_ASSERT(whole);
      loans.copy_out();
    }
  });
}

}  // namespace drlnet::measure
