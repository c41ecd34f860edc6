#include "measure/replay.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "measure/handover.h"

namespace drlnet::measure {
namespace {

constexpr uint64_t kTimeoutNs = 10'000'000'000;
constexpr size_t kErrors = 8192;
constexpr size_t kPieceBytes = 256 * 1024;
constexpr uint64_t kTurnNs = 1'000'000;  // of spinning for the other's round, before sleeping

[[noreturn]] void throw_nothing_to_draw(const TableSpec& spec) {
  throw Error(Status::config, "there is nothing to draw in table '" + spec.name + "'",
              "append items before they are sampled");
}

template <typename T>
std::span<const T> records_at(std::span<const std::byte> reply, uint64_t offset, uint32_t count) {
  return {reinterpret_cast<const T*>(reply.data() + offset), count};
}

}  // namespace

Replay::Replay(const TableSpec& spec) : spec_(spec), layout_(spec) {
  Random random(1);
  for (size_t i = 0; i < kErrors; ++i) {
    errors_.push_back(static_cast<float>(-std::log(1 - random.uniform())));  // exponential
  }
}

void Replay::sample(uint32_t batch, std::span<std::byte> out) {
  DRLNET_ASSERT(out.size() == layout_.total_bytes(batch));
  for (;;) {
    try {
      return draw(batch, out);
    } catch (const Error& error) {
      // Else its rows were overwritten on their way: another batch.
      if (error.status() != Status::sample_expired) throw;
    }
  }
}

size_t Replay::samples(uint32_t batch, std::span<std::byte> out, const Loop& loop) {
  return run(loop, [&] { sample(batch, out); });
}

size_t Replay::cycles(uint32_t batch, std::span<std::byte> out, const Loop& loop) {
  DRLNET_ASSERT(batch <= kErrors);
  size_t at = 0;
  return run(loop, [&] {
    sample(batch, out);
    update(records_at<uint64_t>(out, layout_.keys(batch), batch),
           std::span(errors_).subspan(at, batch));
    at = (at + batch) % (kErrors - batch + 1);
  });
}

InNetworkReplay::InNetworkReplay(Client& client, uint32_t table, const TableSpec& spec)
    : Replay(spec), client_(client), table_(table) {}

void InNetworkReplay::draw(uint32_t batch, std::span<std::byte> out) {
  client_.sample(table_, batch, out, deadline_in(kTimeoutNs));
}

void InNetworkReplay::update(std::span<const uint64_t> keys, std::span<const float> priorities) {
  client_.update_priorities(table_, keys, priorities);
}

StoreReplay::StoreReplay(Client& client, uint32_t table, const TableSpec& spec)
    : Replay(spec),
      client_(client),
      table_(table),
      // Keys of live items span no more than the capacity: no two share a leaf.
      keys_(std::bit_ceil(spec.capacity), kNoKey),
      // The server's priorities have their exponent already.
      sampler_(make_sampler({"prioritized", 1.0, 0.0, {}}, static_cast<uint32_t>(keys_.size()))),
      random_(spec.seed) {}

void StoreReplay::take_changes() {
  bool more = true;
  while (more) {
    more = client_.new_priorities(table_, changes_);
    forget(changes_.oldest);
    slots_.clear();
    probabilities_.clear();
    for (size_t i = 0; i < changes_.keys.size(); ++i) {
      const uint64_t key = changes_.keys[i];
      const float priority = changes_.priorities[i];
      const uint32_t leaf = leaf_of(key);
      const bool here = keys_[leaf] != kNoKey;
      if (key < oldest_) continue;
      if (priority == 0) {
        if (here) sampler_->remove(leaf);
        keys_[leaf] = kNoKey;
      } else if (here) {
        slots_.push_back(leaf);
        probabilities_.push_back(priority);
      } else {
        sampler_->insert(leaf, priority);
        keys_[leaf] = key;
      }
    }
    sampler_->update(slots_, probabilities_);
  }
}

void StoreReplay::forget(uint64_t oldest) {
  // The first reply, or one after a ring's length of rows: everything that it held may be gone.
  uint64_t key = std::max(oldest_, oldest - std::min<uint64_t>(oldest, keys_.size()));
  for (; key < oldest; ++key) {
    const uint32_t leaf = leaf_of(key);
    if (keys_[leaf] == kNoKey || keys_[leaf] >= oldest) continue;
    sampler_->remove(leaf);
    keys_[leaf] = kNoKey;
  }
  oldest_ = oldest;
}

void StoreReplay::draw(uint32_t batch, std::span<std::byte> out) {
  take_changes();
  if (sampler_->size() == 0) throw_nothing_to_draw(spec_);
  slots_.resize(batch);
  probabilities_.resize(batch);
  drawn_.resize(batch);
  sampler_->draw(slots_, probabilities_, random_);
  for (size_t i = 0; i < batch; ++i) drawn_[i] = keys_[slots_[i]];
  client_.read_items(table_, drawn_, out, deadline_in(kTimeoutNs));
  std::memcpy(out.data() + layout_.probabilities(batch), probabilities_.data(), 4 * batch);
}

void StoreReplay::update(std::span<const uint64_t> keys, std::span<const float> priorities) {
  client_.update_priorities(table_, keys, priorities);
}

LocalReplay::LocalReplay(const std::string& listen, Poll poll, const TableSpec& spec,
                         std::optional<unsigned> core)
    : Replay(spec), server_({{listen, "memory:"}, poll, 0}), rounds_(kTurnNs) {
  thread_ = std::thread([this, poll, core] {
    if (core) stay_on(pthread_self(), *core);
    pump(poll);
  });
  try {
    session_ = std::make_unique<Session>(
        ClientOptions{server_.addresses().back(), "learner", kTimeoutNs, poll});
    number_ = session_->open_table(spec);
  } catch (...) {
    join();
    throw;
  }
}

LocalReplay::~LocalReplay() {
  session_.reset();
  join();
}

void LocalReplay::join() {
  stopping_ = true;
  server_.stop();
  thread_.join();
}

void LocalReplay::pump(Poll poll) {
  uint64_t spin_until = 0;
  while (!stopping_) {
    bool moved = false;
    {
      const std::lock_guard round(rounds_);
      try {
        moved = server_.poll_once();
      } catch (...) {
        failure_ = std::current_exception();
        return;
      }
    }
    const uint64_t now = now_ns();
    if (moved || spin_until == 0) spin_until = now + kSpinNs;
    if (moved) continue;
    if (poll == Poll::busy || (poll == Poll::adaptive && now < spin_until)) {
      spin_pause();
    } else {
      server_.wait();
      spin_until = 0;
    }
  }
}

template <typename Use>
void LocalReplay::between_rounds(Use use) {
  const std::lock_guard round(rounds_);
  if (failure_) std::rethrow_exception(failure_);
  use(server_.table(spec_.name));
}

void LocalReplay::draw(uint32_t batch, std::span<std::byte> out) {
  between_rounds([&](Table& table) {
    if (table.may_sample(batch) != Wait::none) throw_nothing_to_draw(spec_);
    table.draw(batch, drawn_);
  });
  // In pieces, between which the server answers others, as it does between its own turns.
  for (size_t at = 0; at < out.size(); at += kPieceBytes) {
    const auto piece = out.subspan(at, std::min(kPieceBytes, out.size() - at));
    between_rounds([&](Table& table) {
      if (!table.gather(drawn_, at, piece)) {
        throw Error(Status::sample_expired, "its rows were overwritten meanwhile", "sample again");
      }
    });
  }
}

void LocalReplay::update(std::span<const uint64_t> keys, std::span<const float> priorities) {
  between_rounds([&](Table& table) {
    uint64_t applied = 0, stale = 0;
    DRLNET_ASSERT(table.update_priorities(keys, priorities, applied, stale) == Status::ok);
  });
}

}  // namespace drlnet::measure
