#include "client/mirror.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "base/assert.h"
#include "base/memory_left.h"
#include "base/world.h"
#include "wire/codec.h"
#include "wire/messages.h"

namespace drlnet {
namespace {

// What one request asks for: enough to fill a link between two of its round trips, and so little
// that what arrives is still in the processor's cache when it is put in its place.
constexpr uint64_t kRunBytes = 256 * 1024;
constexpr size_t kAhead = 8;  // requests while this client is behind
constexpr uint64_t kPatienceNs = 1'000'000'000;
constexpr uint64_t kMostSilenceNs = 60'000'000'000;  // as long as a run that keeps its replay

struct Stopped {};

void check_memory(const TableSpec& spec, uint64_t bytes) {
  const uint64_t free = memory_left_bytes();
  if (bytes <= free) return;
  const uint64_t rows = free / std::max<uint64_t>(spec.row_bytes(), 1);
  throw Error(Status::config,
              "a mirror of table '" + spec.name + "' takes " + std::to_string(bytes >> 20) +
                  " MiB of memory, of which this machine has " + std::to_string(free >> 20) +
                  " MiB left",
              "lower its capacity to some " + std::to_string(rows / 10 * 9) +
                  " rows, or let the server send them: replay.rows = server");
}

}  // namespace

Mirror::Mirror(const TableSpec& spec, std::vector<uint32_t> numbers, Rank rank,
               const Connect& connect, std::function<void()> interrupt,
               const std::vector<bool>& apart)
    : rank_(rank),
      reach_(spec.item),
      layout_(spec),
      row_bytes_(spec.row_bytes()),
      interrupt_(std::move(interrupt)) {
  const auto count = static_cast<uint32_t>(numbers.size());
  if (rank.world == 0 || rank.rank >= rank.world) {
    throw Error(Status::config,
                "rank " + std::to_string(rank.rank) + " of " + std::to_string(rank.world),
                "count ranks from 0, below their number");
  }
  if (spec.limiter.max_times_sampled > 0) {
    throw Error(Status::config,
                "a mirror of table '" + spec.name + "', a queue: its rows travel once as it is",
                "let the server send them: replay.rows = server");
  }
  if (count == rank.world && count > 1) only_ = rank.rank;
  std::vector<TableSpec> parts(count, spec);
  for (uint32_t shard = 0; shard < count; ++shard) {
    parts[shard].capacity = shard_capacity(spec.capacity, count, shard);
    if (!only_ || *only_ == shard) memory_bytes_ += RowMirror::memory_bytes(parts[shard]);
  }
  check_memory(spec, memory_bytes_);
  for (uint32_t shard = 0; shard < count; ++shard) {
    if (only_ && *only_ != shard) {
      shards_.push_back(nullptr);
      continue;
    }
    Shard& one = *shards_.emplace_back(
        std::make_unique<Shard>(parts[shard], apart, static_cast<uint32_t>(places_)));
    places_ += ring_slots(parts[shard]);
    one.table = numbers[shard];
    one.client = connect(shard, [this] {
      if (stopping_) throw Stopped();
      if (!followed_ && interrupt_) interrupt_();  // it is for the threads that call us
    });
  }
  followed_ = true;
  for (const auto& shard : shards_) {
    if (shard) shard->thread = std::thread([this, &one = *shard] { follow(one); });
  }
}

Mirror::~Mirror() {
  stopping_ = true;
  for (const auto& shard : shards_) {
    if (shard && shard->thread.joinable()) shard->thread.join();
  }
}

// The newest rows come first, then older ones until the server has none, which new ones pass. While
// there are more, several requests follow one another; then one waits for rows to come. Each names
// the rows that it is for: any of them may be lost, and asked again.
void Mirror::follow(Shard& shard) {
  struct Asked {
    CallId id;
    uint32_t count;
    bool older;
  };
  RowMirror& rows = shard.rows;
  Client& client = *shard.client;
  const auto most = static_cast<uint32_t>(std::max<uint64_t>(kRunBytes / row_bytes_, 1));
  std::deque<Asked> asked;
  // Keys: of the row to ask for, of the server's head, and of the row before which others are asked
  // for.
  uint64_t next = 0, known = 0, before = 0;
  const auto ask = [&](uint64_t rows_left, bool older) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(rows_left, most));
    const FollowRequest request{shard.table, count | (older ? kBefore : 0), older ? before : next};
    const CallId id = client.start(Operation::follow, deadline_in(kMostSilenceNs),
                                   [&](auto& body) { ByteWriter(body).put(request); });
    asked.push_back({id, count, older});
    (older ? before : next) += older ? -uint64_t{count} : count;
  };
  const auto ask_more = [&] {
    if (asked.empty()) {
      next = rows.next_key();
      before = rows.first_key();
      if (next == 0) return ask(most, true);  // the newest
      if (number_of(before) == 0) rows.end_older();
      if (rows.whole() && known <= next) return ask(most, false);  // waits
    }
    while (next != 0 && asked.size() < kAhead) {
      if (next < known) {
        ask(known - next, false);
      } else if (!rows.whole() && number_of(before) > 0) {
        ask(number_of(before), true);
      } else {
        return;
      }
    }
  };
  try {
    // No wait is long enough for the interruption where rows come without a pause.
    while (!stopping_) {
      ask_more();
      const auto [id, count, older] = asked.front();
      while (!client.wait(id, deadline_in(kMostSilenceNs), kPatienceNs)) {
      }
      asked.pop_front();
      bool gone = false, anew = false;
      client.collect(id, deadline_in(kMostSilenceNs), [&](Status status, auto reply) {
        gone = status == Status::sample_expired;
        anew = status == Status::bad_request && rows.next_key() != 0;  // not a key of its
        if (gone || anew) return;
        throw_if_refused(status, reply);
        const FollowHeader run = rows.store(reply);
        if (older && run.count < count) rows.end_older();
        known = std::max(run.head, rows.next_key());
      });
      if (anew) {
        rows.forget();
        known = 0;
      }
      if (!gone && !anew) continue;
      for (const Asked& other : std::exchange(asked, {})) client.abandon(other.id);
    }
  } catch (const Stopped&) {
  } catch (...) {
    rows.fail(std::current_exception());
  }
}

uint64_t Mirror::reference_bytes(uint64_t items) const {
  return items == 0 ? sizeof(SampleHeader) : layout_.reference_bytes(items, reach_.rows());
}

uint32_t Mirror::gather(uint32_t shard, std::span<const std::byte> references,
                        FunctionRef<const Places&(uint32_t)> places_of, Deadline deadline) {
  DRLNET_ASSERT(shards_[shard] != nullptr && references.size() >= sizeof(SampleHeader));
  DrawnBatch drawn;
  std::memcpy(&drawn.header, references.data(), sizeof drawn.header);
  const uint64_t n = drawn.header.batch;
  const auto read = [&](uint64_t offset, auto& values, uint64_t count) {
    values.resize(count);
    std::memcpy(values.data(), references.data() + offset, count * sizeof values[0]);
  };
  if (references.size() != reference_bytes(n)) {
    throw Error(Status::protocol, "a sample by reference does not parse",
                "install the same drlnet on both sides");
  }
  read(layout_.keys(n), drawn.keys, n);
  read(layout_.probabilities(n), drawn.probabilities, n);
  read(layout_.lengths(n), drawn.lengths, n);
  read(layout_.references(n), drawn.slots, n * reach_.rows());
  const uint64_t head = number_of(drawn.header.head);
  uint32_t youngest = UINT32_MAX, oldest = 0;
  for (const uint32_t age : drawn.slots) {
    youngest = std::min(youngest, age);
    oldest = std::max(oldest, age);
  }
  if (youngest == 0 || youngest > head) {
    throw Error(Status::protocol, "a sample refers to rows that have not been",
                "install the same drlnet on both sides");
  }
  RowMirror& rows = shards_[shard]->rows;
  const uint64_t began = now_ns();
  const uint64_t base = n > 0 ? base_of(drawn.keys[0]) : 0;
  if (rows.wait_for(base, head - std::min<uint64_t>(head, oldest), head - youngest + 1, deadline,
                    interrupt_)) {
    wait_ns_ += now_ns() - began;
  }
  const uint32_t left = rows.gather(drawn, places_of);
  drawn_ += left;
  replaced_ += n - left;
  return left;
}

uint64_t Mirror::from(size_t shard, Deadline deadline) {
  return shards_[shard] ? shards_[shard]->rows.from(deadline, interrupt_) : 0;
}

void Mirror::wait_for_news(size_t shard, Deadline deadline) {
  constexpr uint64_t kMomentNs = 10'000'000;  // priorities may change without a row
  if (interrupt_) interrupt_();
  if (shards_[shard])
    shards_[shard]->rows.wait_for_news(std::min(deadline, deadline_in(kMomentNs)));
}

void Mirror::throw_empty() const {
  if (only_) {
    throw Error(Status::timeout,
                "shard " + std::to_string(*only_) + ", this rank's own, has no items",
                "run actors whose streams it has, or fewer shards than ranks");
  }
  throw Error(Status::timeout, "the mirror: no item has all of its rows here yet",
              "allow more time, or start the mirror before the actors: it gets later rows");
}

RowMirror::Run Mirror::copy_apart(std::span<const std::span<std::byte>> to) {
  for (const auto& shard : shards_) {
    if (!shard) continue;
    const RowMirror::Run run = shard->rows.copy_apart(shard->copied, to);
    if (run.count > 0) return run;
  }
  return {};
}

bool Mirror::has_shown(bool let_go) {
  bool has = true;
  for (const auto& shard : shards_) {
    if (shard) has = shard->rows.has_shown(shard->copied, let_go) && has;
  }
  return has;
}

void Mirror::wait_until_whole(Deadline deadline) const {
  for (const auto& shard : shards_) {
    if (shard) shard->rows.wait_until_whole(deadline, interrupt_);
  }
}

void Mirror::read_metrics(Metrics& metrics) const {
  uint64_t rows = 0, behind = 0;
  for (const auto& shard : shards_) {
    if (!shard) continue;
    rows += shard->rows.rows();
    behind += shard->rows.behind();
  }
  metrics.set("mirror.rows", rows);
  metrics.set("mirror.rows_behind", behind);
  metrics.set("mirror.memory_bytes", memory_bytes_);
  metrics.set("mirror.drawn", drawn_.load());
  metrics.set("mirror.replaced", replaced_.load());
  metrics.set("mirror.wait_s", static_cast<double>(wait_ns_.load()) / 1e9);
}

}  // namespace drlnet
