#include "oracle.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "replay/streams.h"
#include "world.h"

namespace drlnet::sim {
namespace {

// The columns, in the table's order.
enum Column : size_t { kName, kPayload };
// A writer looks at its appends' answers this late at worst.
constexpr uint64_t kHeardLateNs = 25'000'000'000;

// Until a server tries again what its disk did not take; and it writes for a while.
constexpr uint64_t kRetryNs = 1'500'000'000;

std::string text(const RowName& name) {
  return "step " + std::to_string(name.step) + " of stream " + std::to_string(name.token);
}

}  // namespace

void fill_row(const RowName& name, std::span<std::byte> payload) {
  uint64_t word = splitmix64(name.token ^ splitmix64(name.step + kSplitMixStep));
  for (size_t i = 0; i < payload.size(); ++i) {
    if (i % 8 == 0) word = splitmix64(word + kSplitMixStep);
    payload[i] = static_cast<std::byte>(word >> i % 8 * 8);
  }
}

bool is_anchor(const ItemSpec& item, uint64_t step) {
  const uint64_t since_first = step % kEpisodeSteps;
  if (item.boundary == Boundary::cross) return step % item.period == 0;
  return since_first < kEpisodeSteps - 1 && since_first % item.period == 0;
}

uint64_t length_at(const ItemSpec& item, uint64_t step) {
  const uint64_t horizon = item.horizon();
  if (item.boundary == Boundary::cross) return horizon;
  return std::min(horizon, kEpisodeSteps - 1 - step % kEpisodeSteps);
}

void Oracle::heard(StreamLog& log) {
  log.heard_ns = world_.time_ns();
  log.jumped_ns = world_.jumped_ns();
}

void Oracle::leased(uint64_t lineage, uint32_t shard, const Lease& lease, uint64_t began_ns) {
  require(lease.next_step == 0, "(1) a new stream begins at its first step");
  const uint64_t life = began_ns > died_ns_ ? life_ : life_ - 1;
  StreamLog log{.lineage = lineage, .life = life, .epoch = lease.epoch};
  heard(log);
  const uint64_t former = std::exchange(newest_[{lineage, shard, lease.ordinal}], lease.token);
  // Over a crash a lease may be lost that was not on disk: its place is free again.
  const bool known = former != 0 && (!durability_ns_ || streams_.at(former).life == life_);
  if (known) is_followed(streams_.at(former), log, lease.ordinal);
  require(streams_.emplace(lease.token, log).second, "(1) a stream is leased to one client");
}

// Another's was it before: that one has given it back, or its session was over for a minute.
void Oracle::is_followed(const StreamLog& former, const StreamLog& log, uint32_t ordinal) {
  const uint64_t since_ns =
      log.heard_ns - former.heard_ns + log.jumped_ns - former.jumped_ns + kHeardLateNs;
  require(former.releasing || since_ns > Streams::kOrphanGraceNs,
          "(1) a stream is leased to one client: number " + std::to_string(ordinal) +
              " to another after " + std::to_string(since_ns / 1'000'000) + " ms");
  require(log.epoch > former.epoch, "(1) a stream's epoch grows with each lease");
  if (!former.releasing) world_.mark("streams of dead clients leased anew");
  if (durability_ns_) world_.mark("streams of a kept state leased anew");
}

// What is old enough to be on disk must be there again; the rest may be lost.
void Oracle::server_dies() {
  died_ns_ = world_.time_ns();
  ++life_;
  if (!durability_ns_) {
    published_.clear();
    counts_.clear();
    return;
  }
  const auto lost = [&](const Acknowledged& one) { return !durable(one.at_ns); };
  for (auto& [token, log] : streams_) {
    std::erase_if(log.since, lost);
    log.acknowledged = 0;
    for (const Acknowledged& one : log.since) {
      log.acknowledged = std::max(log.acknowledged, one.value);
    }
  }
  for (auto& [name, updates] : updates_) {
    for (Update& update : updates) {
      if (!durable(update.acknowledged_ns)) update.acknowledged_ns = 0;
    }
  }
  for (auto& [name, published] : published_) std::erase_if(published, lost);
  if (rots_) kept_ = {};
  // No draw's answer waits for the disk.
  const uint64_t late_ns = *durability_ns_ == 0 ? kRetryNs : 0;
  for (const Counts& one : std::exchange(counts_, {})) {
    if (!durable(one.at_ns + late_ns)) continue;
    kept_.created = std::max(kept_.created, one.created);
    kept_.drawn = std::max(kept_.drawn, one.drawn);
  }
}

void Oracle::disk_works() {
  for (Failing& one : failing_) one.until_ns = std::min(one.until_ns, world_.time_ns());
}

// Whether what was acknowledged then was on disk when the server died.
bool Oracle::durable(uint64_t at_ns) const {
  if (rots_ || at_ns == 0) return false;
  uint64_t by_ns = at_ns + *durability_ns_;
  if (*durability_ns_ > 0) {
    for (const Failing& one : failing_) {
      const uint64_t works_ns = one.until_ns + kRetryNs;
      if (one.from_ns < by_ns && at_ns < works_ns) by_ns = works_ns + *durability_ns_;
    }
  }
  return by_ns <= died_ns_;
}

bool Oracle::counts(uint64_t began_ns) const {
  // Its answer may still have been under way when the server died.
  const bool on_disk = durability_ns_ && *durability_ns_ == 0 && !rots_;
  return began_ns > died_ns_ || on_disk;
}

void Oracle::resumed(uint64_t lineage, const Lease& lease, uint64_t began_ns) {
  StreamLog& log = streams_.at(lease.token);
  heard(log);
  require(log.lineage == lineage, "(1) a stream is resumed where it was leased");
  require(!log.released || durability_ns_, "(1) a stream that was given back is not resumed");
  log.releasing = false;
  const std::string here = ": resumed at step " + std::to_string(lease.next_step) + ", " +
                           std::to_string(log.acknowledged) + " acknowledged, " +
                           std::to_string(log.sent) + " sent";
  require(lease.next_step >= log.acknowledged,
          "(1, 4) what is acknowledged is stored, and over a crash what is durable" + here);
  require(lease.next_step <= log.sent, "(1) nothing is stored that was not sent" + here);
  // Their items may have been on their way in another request.
  for (uint64_t step = log.acknowledged; step < lease.next_step; ++step) log.uncertain.insert(step);
  if (began_ns <= died_ns_) return;
  log.life = life_;
  if (lease.next_step < log.sent) forget_updates(lease.token, lease.next_step, log.sent);
  acknowledged(lease.token, lease.next_step, began_ns);
}

// Those rows are not there any more, and what comes in their places is new.
void Oracle::forget_updates(uint64_t token, uint64_t from, uint64_t to) {
  for (uint64_t step = from; step < to; ++step) {
    const auto found = updates_.find({token, step});
    if (found == updates_.end()) continue;
    std::erase_if(found->second, [&](const Update& one) { return one.life < life_; });
  }
}

void Oracle::sent(uint64_t token, uint64_t steps) {
  StreamLog& log = streams_.at(token);
  log.sent = std::max(log.sent, steps);
}

void Oracle::acknowledged(uint64_t token, uint64_t steps, uint64_t began_ns) {
  if (!counts(began_ns)) return;
  StreamLog& log = streams_.at(token);
  log.acknowledged = std::max(log.acknowledged, steps);
  if (durability_ns_) log.since.push_back({world_.time_ns(), steps});
  heard(log);
}

void Oracle::items(uint64_t lineage, std::span<const std::byte> reply, uint32_t count, bool drawn) {
  const SampleLayout layout(spec_);
  for (uint32_t i = 0; i < count; ++i) {
    const auto key = read<uint64_t>(reply, layout.keys(count) + 8 * i);
    if (key == kNoKey) {
      require(!drawn, "(1) a drawn item is one that the server holds");
      continue;
    }
    const ViewPlace& view = layout.views()[kName];
    const Window& window = layout.windows()[view.window];
    const uint64_t at = layout.window(count, view.window) + window.item_bytes() * i +
                        static_cast<uint64_t>(-window.lo) * window.row_bytes;
    const RowName name{read<uint64_t>(reply, at), read<uint64_t>(reply, at + 8)};
    const auto stream = streams_.find(name.token);
    require(stream != streams_.end() && stream->second.lineage == lineage,
            "(1) what is stored was sent: " + text(name));
    require(name.step + length_at(spec_.item, name.step) < stream->second.sent,
            "(1) what is stored was sent: " + text(name));
    is_whole(layout, reply, count, i, name);
    const auto known = rows_.emplace(Key{lineage, key}, name).first;
    require(known->second == name, "(2) a key stays one row's: " + text(name));
  }
}

// Each of its windows holds the rows of its steps as they were sent, and beyond the episode what
// the spec says.
void Oracle::is_whole(const SampleLayout& layout, std::span<const std::byte> reply, uint32_t count,
                      uint32_t i, const RowName& anchor) {
  const uint64_t length = length_at(spec_.item, anchor.step);
  require(is_anchor(spec_.item, anchor.step) &&
              read<uint32_t>(reply, layout.lengths(count) + 4 * i) == length,
          "(1) an item is one that was asked for, of its episode's length: " + text(anchor));
  if (length < spec_.item.horizon()) world_.mark("items that an episode's end cut short");
  const bool crosses = spec_.item.boundary == Boundary::cross;
  const auto first = static_cast<int64_t>(crosses ? 0 : anchor.step - anchor.step % kEpisodeSteps);
  const auto end = static_cast<int64_t>(anchor.step + length);
  std::vector<std::byte> expected;
  for (size_t w = 0; w < layout.windows().size(); ++w) {
    const Window& window = layout.windows()[w];
    const auto early =
        window.align == Align::end ? static_cast<int64_t>(spec_.item.horizon() - length) : 0;
    for (uint64_t row = 0; row < window.rows(); ++row) {
      const int64_t step = static_cast<int64_t>(anchor.step + row) + window.lo - early;
      const int64_t held = std::clamp(step, first, end);
      const RowName name{anchor.token, static_cast<uint64_t>(held)};
      expected.assign(window.row_bytes, std::byte{0});
      if (step != held) world_.mark("rows beyond an episode");
      if (step == held || window.pad == Pad::repeat) {
        if (window.column == kName) std::memcpy(expected.data(), &name, sizeof name);
        if (window.column == kPayload) fill_row(name, expected);
      }
      const uint64_t at =
          layout.window(count, w) + window.item_bytes() * i + row * window.row_bytes;
      require(std::ranges::equal(reply.subspan(at, window.row_bytes), expected),
              "(1) a row is stored as it was sent: " + text(name) + " in the item at step " +
                  std::to_string(anchor.step));
    }
  }
}

// Draws go ahead within the error buffer, and so do insertions: but for those before the table has
// the least size, with items that wait for rows which no writer sends any more.
void Oracle::counted(uint64_t lineage, std::span<const std::byte> reply, uint64_t began_ns) {
  const LimiterSpec& limiter = spec_.limiter;
  if (limiter.samples_per_insert == 0) return;
  const auto header = read<SampleHeader>(reply, 0);
  const std::string here = ": " + std::to_string(header.items_created) + " items created, " +
                           std::to_string(header.items_drawn) + " drawn";
  const double ratio = limiter.samples_per_insert;
  const auto created = static_cast<double>(header.items_created);
  const double balance = ratio * (created - static_cast<double>(limiter.min_size)) -
                         static_cast<double>(header.items_drawn);
  require(balance >= -limiter.error_buffer, "draws wait for insertions" + here);
  uint64_t waiting = limiter.append_burst;
  for (const auto& [token, log] : streams_) {
    if (log.lineage == lineage) waiting += spec_.item.horizon();
  }
  const double most = std::max(limiter.error_buffer, ratio * static_cast<double>(waiting));
  require(rots_ || balance + header.batch <= most, "insertions wait for draws" + here);
  if (began_ns <= died_ns_) return;
  if (kept_.drawn > 0) world_.mark("counts of draws known from before a restart");
  require(header.items_created >= kept_.created && header.items_drawn >= kept_.drawn,
          "(4) the limiter's counts are kept over a restart" + here + ", there were " +
              std::to_string(kept_.created) + " and " + std::to_string(kept_.drawn));
  counts_.push_back({world_.time_ns(), header.items_created, header.items_drawn});
}

// Each row, and each key, has one of its own, or nearly so.
float Oracle::initial_priority(const RowName& name) {
  return 1.0f + static_cast<float>(splitmix64(name.token + name.step) % 4096) / 4096;
}

float Oracle::updated_priority(uint64_t key) {
  return 4.0f + static_cast<float>(splitmix64(key) % 65'536) / 65'536;
}

void Oracle::updating(uint64_t lineage, uint64_t key) {
  std::vector<Update>& updates = updates_[rows_.at({lineage, key})];
  if (std::ranges::find(updates, key, &Update::key) == updates.end()) {
    updates.push_back({key, life_});
  }
}

void Oracle::updated(uint64_t lineage, uint64_t key, uint64_t began_ns) {
  if (!counts(began_ns)) return;
  std::vector<Update>& updates = updates_[rows_.at({lineage, key})];
  std::ranges::find(updates, key, &Update::key)->acknowledged_ns = world_.time_ns();
}

// Its priority is the one that it began with, or of an update that was asked for: but for those
// after which a later one was to be there.
void Oracle::stored(uint64_t lineage, uint64_t key, float priority) {
  const RowName& name = rows_.at({lineage, key});
  require(held_[lineage].insert(name).second, "(1) an append is applied once: " + text(name));
  bool right = priority == initial_priority(name);
  for (const Update& update : updates_[name]) {
    if (update.acknowledged_ns != 0) right = false;
    right |= priority == updated_priority(update.key);
  }
  require(right,
          "(2, 4) a priority touches the item that it was meant for, and no other, and is "
          "there where it is durable: " +
              text(name) + " has " + std::to_string(priority));
}

void Oracle::complete(uint64_t lineage, uint64_t held_rows) {
  if (rots_) return;
  uint64_t rows = 0;
  for (const auto& [token, log] : streams_) rows += log.lineage == lineage ? log.sent : 0;
  if (rows > held_rows) return world_.mark("rows evicted");
  for (const auto& [token, log] : streams_) {
    if (log.lineage != lineage) continue;
    for (uint64_t step = 0; step < log.acknowledged; ++step) {
      if (log.uncertain.contains(step) || !is_anchor(spec_.item, step)) continue;
      if (step + length_at(spec_.item, step) >= log.acknowledged) continue;
      const RowName name{token, step};
      require(held_[lineage].contains(name),
              "(1, 4) what is acknowledged is stored: " + text(name));
    }
  }
}

}  // namespace drlnet::sim
