#include "server/keeper.h"

#include <algorithm>

#include "wire/messages.h"

namespace drlnet {
namespace {

// What a lease or a table's number is good for would be lost with it: a client could not go on.
bool names_something(Operation operation) {
  return operation == Operation::open_table || operation == Operation::drop_table ||
         operation == Operation::lease;
}

bool changes_state(Operation operation) {
  switch (operation) {
    case Operation::append:
    case Operation::update_priorities:
    case Operation::publish:
    case Operation::put_blob:
    case Operation::release:
    case Operation::empty_table:
    case Operation::sample:  // it is counted, and a queue's items are drawn
      return true;
    default:
      return names_something(operation);
  }
}

}  // namespace

Keeper::Keeper(std::shared_ptr<const StateFolder> folder, uint32_t shard, uint64_t durability_ns,
               ReadProgress& progress)
    : state_(std::move(folder)),
      folder_(state_->shard(shard)),
      durability_ns_(durability_ns),
      recovery_(std::make_unique<Recovery>(folder_, state_->lineage(), progress)) {}

void Keeper::begin(uint64_t sequence, std::function<void()> done) {
  KeptSnapshot keep = recovery_->snapshot();
  recovery_.reset();
  next_ = sequence + 1;
  written_record_ = sequence;
  if (state_->to_read()) return;
  storage_ =
      std::make_unique<Storage>(folder_, state_->lineage(), std::move(keep), std::move(done));
  wanted_ = true;
}

// Half of the time is for the disk.
uint64_t Keeper::due_ns() const {
  if (!storage_ || changed_ns_ == 0 || busy()) return ~uint64_t{0};
  return changed_ns_ + durability_ns_ / 2;
}

uint64_t Keeper::begin_cut() {
  cut_changed_ns_ = std::exchange(changed_ns_, 0);
  wanted_ = false;
  return next_++;
}

void Keeper::end_cut(uint64_t record) {
  written_record_ = record;
  cut_changed_ns_ = 0;
  look_ = true;
}

uint16_t Keeper::hold(const Peer& peer, Slot& slot, uint64_t now) {
  if (!storage_ || !changes_state(slot.operation)) return 0;
  if (changed_ns_ == 0) changed_ns_ = std::max<uint64_t>(now, 1);
  const bool waits = names_something(slot.operation) ||
                     (durability_ns_ == 0 && slot.operation != Operation::sample);
  if (!waits || slot.use_source) return 0;
  constexpr PublishReply kMoreToCome{0};
  if (slot.operation == Operation::publish &&
      std::ranges::equal(slot.bytes, std::as_bytes(std::span(&kMoreToCome, 1)))) {
    return 0;
  }
  promises_.push_back({peer.connection, lane_of(slot.operation), next_, true, {}});
  promises_.back().reply.swap(slot.bytes);
  wanted_ = true;
  return static_cast<uint16_t>(Wait::disk);
}

uint16_t Keeper::wait(const Peer& peer, const Slot& slot) {
  promises_.push_back({peer.connection, lane_of(slot.operation), 0, false, {}});
  wanted_ |= !busy();
  return static_cast<uint16_t>(Wait::disk);
}

Promise* Keeper::find(uint32_t connection, Lane lane) {
  const auto found = std::ranges::find_if(promises_, [&](const Promise& one) {
    return one.connection == connection && one.lane == lane;
  });
  return found != promises_.end() ? &*found : nullptr;
}

void Keeper::forget(Promise& promise) {
  std::swap(promise, promises_.back());
  promises_.pop_back();
}

uint16_t Keeper::answer(Promise& promise, Slot& slot) {
  if (promise.record > written_record_) return static_cast<uint16_t>(Wait::disk);
  slot.bytes.swap(promise.reply);
  forget(promise);
  return 0;
}

std::vector<std::pair<uint32_t, Lane>> Keeper::take_ready() {
  std::vector<std::pair<uint32_t, Lane>> ready;
  if (!std::exchange(look_, false)) return ready;
  for (const Promise& promise : promises_) {
    if (!promise.ran || promise.record <= written_record_) {
      ready.emplace_back(promise.connection, promise.lane);
    }
  }
  return ready;
}

void Keeper::ended(uint32_t connection) {
  std::erase_if(promises_, [&](const Promise& one) { return one.connection == connection; });
}

void Keeper::read_metrics(Metrics& metrics, uint64_t now) const {
  if (!storage_) return;
  const uint64_t since = cut_changed_ns_ != 0 ? cut_changed_ns_ : changed_ns_;
  metrics.set("state.incarnation", state_->incarnation());
  metrics.set("state.record", written_record_);
  metrics.set("state.behind_s",
              since == 0 ? 0 : static_cast<double>(now - std::min(now, since)) / 1e9);
  metrics.set("state.trouble", storage_->in_trouble() ? storage_->trouble() : std::string());
  storage_->read_metrics(metrics);
}

}  // namespace drlnet
