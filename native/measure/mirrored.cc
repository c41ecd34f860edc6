#include "measure/mirrored.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "client/row_mirror.h"

namespace drlnet::measure {
namespace {

// Whose steps lie in turns: the rows of one item are so far apart.
constexpr uint32_t kStreams = 50;
constexpr uint64_t kTimeoutNs = 10'000'000'000, kFillNs = 60'000'000'000;

// One that has all of its rows.
void fill(RowMirror& rows, const TableSpec& spec) {
  constexpr uint32_t kRun = 64;
  const RowLayout layout(spec);
  std::vector<std::byte> reply(layout.total_bytes(kRun), std::byte{1});
  for (uint64_t first = 1; first < ring_slots(spec); first += kRun) {
    const FollowHeader run{first, first + kRun, kRun, {}};
    std::memcpy(reply.data(), &run, sizeof run);
    rows.store(reply);
  }
}

}  // namespace

MirroredReplay::MirroredReplay(Client& client, const ClientOptions& options, const TableSpec& spec)
    : Replay(spec) {
  const auto connect = [&](uint32_t, std::function<void()> interrupt) {
    ClientOptions own = options;
    own.name = "rows_" + own.name;
    if (own.poll == Poll::busy) own.poll = Poll::adaptive;  // it mostly waits
    return std::make_unique<Client>(own, std::move(interrupt));
  };
  mirrored_ = std::make_unique<MirroredTable>(std::vector<Client*>{&client}, spec, Rank{}, connect,
                                              nullptr);
  mirrored_->mirror().wait_until_whole(deadline_in(kFillNs));
}

void MirroredReplay::draw(uint32_t batch, std::span<std::byte> out) {
  mirrored_->table().sample(BatchLayout(spec_, batch), out, deadline_in(kTimeoutNs));
}

void MirroredReplay::update(std::span<const uint64_t> keys, std::span<const float> priorities) {
  mirrored_->table().update_priorities(keys, priorities);
}

size_t gathers(const TableSpec& spec, uint32_t batch, const Loop& loop) {
  RowMirror rows(spec);
  fill(rows, spec);
  const Reach reach(spec.item);
  const BatchLayout layout(spec, batch);
  std::vector<std::byte> memory(layout.memory_bytes(), std::byte{1});
  SampleHeader header{};
  Places places{.runs = {}, .reply_bytes = layout.reply().total_bytes(batch)};
  places.runs.push_back({0, std::as_writable_bytes(std::span(&header, 1))});
  layout.add_part(memory, 0, batch, places);
  Random random(1);
  DrawnBatch drawn;
  const auto draw = [&] {
    drawn.header.head = rows.head();
    drawn.keys.assign(batch, 0);
    drawn.probabilities.assign(batch, 0);
    drawn.lengths.assign(batch, reach.horizon);
    drawn.slots.resize(uint64_t{batch} * reach.rows());
    for (uint32_t i = 0; i < batch; ++i) {
      const auto newest = static_cast<uint32_t>(
          1 + random.uniform() * static_cast<double>(spec.capacity - kStreams * reach.rows()));
      for (uint32_t r = 0; r < reach.rows(); ++r) {
        drawn.slots[uint64_t{r} * batch + i] = newest + kStreams * (reach.rows() - 1 - r);
      }
    }
  };
  return run(loop, draw,
             [&] { rows.gather(drawn, [&](uint32_t) -> const Places& { return places; }); });
}

}  // namespace drlnet::measure
