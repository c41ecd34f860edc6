#include "server/server.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/world.h"

namespace drlnet {
namespace {

constexpr uint64_t kHousekeepingNs = 1'000'000'000;
constexpr uint64_t kPollsPerClock = 64;

uint64_t default_memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 5 * 4;
}

ServerIdentity identity_of(const ServerOptions& options) {
  if (options.state) return {options.state->lineage(), options.state->incarnation()};
  return {options.shards ? options.shards->lineage() : random_secret(), 1};
}

}  // namespace

uint16_t Server::epoch_now() { return static_cast<uint16_t>(wall_s() / 60); }

Server::Server(const ServerOptions& options)
    : poll_(options.poll),
      memory_limit_((options.memory_bytes         ? options.memory_bytes
                     : options.limits.table_bytes ? options.limits.table_bytes
                                                  : default_memory_bytes()) /
                    (options.shards ? options.shards->own() : 1)),
      sampler_(options.sampler),
      index_only_(options.index_only),
      version_(options.version),
      keys_(options.keys),
      shards_(options.shards),
      shard_(options.shard),
      epoch_(options.state ? options.state->epoch() : epoch_now()),
      sessions_(*this, identity_of(options), shard_, shards_ ? shards_->count() : 0),
      started_ns_(now_ns()) {
  sessions_.set_limits(options.limits);
  if (options.state && index_only_) {
    throw Error(Status::config, "a server that keeps no rows (--index-only) can not keep its state",
                "leave out --index-only or --state");
  }
  if (options.listen.empty()) {
    throw Error(Status::config, "a server needs an address to listen on",
                "name one: udp://127.0.0.1:7447");
  }
  if (keys_) sessions_.require_keys(keys_);
  for (const std::string& address : options.listen) {
    sessions_.add_listener(listen(address, shards_ ? shards_->own() : 1));
    insecure_ |= !keys_ && !is_loopback(address);
  }
  poll_fds_.resize(options.listen.size() + 1);
  ended_latency_.resize(options.listen.size());
  if (shards_) shards_->join(shard_, *this);
}

void Server::set_keys(KeyRing ring) {
  if (!keys_) {
    throw Error(Status::config, "a server that began without keys", "start it again, with --key");
  }
  keys_->set(std::move(ring));
}

Server::~Server() {
  loader_.reset();  // their threads wake the loop
  keeper_.reset();
  if (shards_) shards_->leave(shard_);
}

std::vector<std::string> Server::addresses() const {
  std::vector<std::string> result;
  for (const auto& transport : sessions_.listeners()) {
    result.push_back(transport->local_address());
  }
  return result;
}

bool Server::poll_once() {
  if (keeper_ && keeper_->has_news()) keep_state(now_ns());
  // A spinning loop need not look at the clock each time: a round is far shorter than a second.
  if (polls_++ % kPollsPerClock == 0) keep_house(now_ns());
  // Once the replies are on their way, what is left to do is done between looks for frames.
  const bool came = loader_ && load_columns();
  if (!sessions_.poll() && !work_left_) return came;
  work_left_ = false;
  for (const OpenTable& open : tables_) work_left_ |= open.table->work_ahead(sessions_.clock_ns());
  return true;
}

void Server::tell_loading(const std::string& what) {
  constexpr int kRounds = 64;  // whatever comes: another server waits for its turn
  sessions_.set_loading(what);
  for (int i = 0; i < kRounds && sessions_.poll();) ++i;
}

void Server::keep_house(uint64_t now) {
  if (keeper_) keep_state(now);
  if (now < next_expiry_ns_) return;
  const uint64_t stood = now > next_expiry_ns_ + kHousekeepingNs ? now - next_expiry_ns_ : 0;
  if (stood > 0) sessions_.stood_still(stood, now);
  if (shards_ && shard_ == 0) shards_->expire(now, next_expiry_ns_ == 0 ? 0 : stood);
  sessions_.expire(now);
  for (const OpenTable& open : tables_) open.table->mark(now, params_version());
  if (questions_.keep_house(answering_heard_ns(), now)) sessions_.retry();
  next_expiry_ns_ = now + kHousekeepingNs;
}

uint64_t Server::params_version() const {
  if (shards_) return shards_->params_version.load(std::memory_order_relaxed);
  return params_ ? params_->version : 0;
}

void Server::run() {
  struct Looping {
    Server& server;
    explicit Looping(Server& looping) : server(looping) { set(true); }
    ~Looping() { set(false); }
    void set(bool looping) {
      const std::lock_guard lock(server.readers_mutex_);
      server.looping_ = looping;
      server.answer_readers();  // those that still asked the loop
    }
  } looping(*this);
  loop();
  if (keeper_) finish_state();
}

void Server::loop() {
  uint64_t spin_until = 0;
  for (;;) {
    if (const uint32_t asked = requests_.load(std::memory_order_relaxed)) {
      if (asked & kStop) return;
      // Asked for again from here on, it is seen again; behind it the asking thread has woken us.
      if (requests_.fetch_and(~uint32_t{kRetry}) & kRetry) {
        follow_drops();
        sessions_.retry();
      }
      const std::lock_guard lock(readers_mutex_);
      answer_readers();
    }
    if (poll_once()) {
      spin_until = 0;
      continue;
    }
    if (poll_ == Poll::busy) {
      spin_pause();
      continue;
    }
    const uint64_t now = now_ns();
    if (poll_ == Poll::adaptive) {
      if (spin_until == 0) spin_until = now + kSpinNs;
      if (now < spin_until) {
        spin_pause();
        continue;
      }
    }
    keep_house(now);
    wait();
    spin_until = 0;
  }
}

void Server::wait() {
  const uint64_t now = now_ns();
  uint64_t until = std::min(next_expiry_ns_, keeper_ ? keeper_->due_ns() : next_expiry_ns_);
  size_t count = 0;
  poll_fds_[count++] = {wake_fd_.fd(), POLLIN, 0};
  for (const auto& transport : sessions_.listeners()) {
    const WaitPoint point = transport->arm();
    if (point.fd >= 0) {
      const short events = static_cast<short>(POLLIN | (sessions_.output_blocked() ? POLLOUT : 0));
      poll_fds_[count++] = {point.fd, events, 0};
    } else {
      until = std::min(until, point.look_again_ns);
    }
  }
  if (until <= now) return;
  ++waits_;
  // A signal (Ctrl-C) simply ends it, and the loop looks at requests_ again.
  sleep_on({poll_fds_.data(), count}, until);
}

Table& Server::table(std::string_view name) {
  const OpenTable* open = tables_.find(name);
  if (open == nullptr) {
    throw Error(Status::unknown_table, "the server has no table '" + std::string(name) + "'",
                "open the table before using it");
  }
  return *open->table;
}

void Server::stop() {
  requests_.fetch_or(kStop, std::memory_order_relaxed);
  wake_fd_.wake();
}

void Server::retry() {
  requests_.fetch_or(kRetry);
  wake_fd_.wake();
}

uint16_t Server::handle(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  if (keeper_) {
    if (Promise* promise = keeper_->find(peer.connection, lane_of(slot.operation))) {
      if (promise->ran) return keeper_->answer(*promise, slot);
      keeper_->forget(*promise);  // it looks again
    }
  }
  const uint16_t wait = run_request(peer, slot, body);
  if (!keeper_ || wait != 0 || slot.status != Status::ok) return wait;
  return keeper_->hold(peer, slot, sessions_.clock_ns());
}

uint16_t Server::run_request(Peer& peer, Slot& slot, std::span<const std::byte> body) {
  using Handler = uint16_t (Server::*)(Peer&, Slot&, std::span<const std::byte>);
  static constexpr std::array<Handler, kOperations> kHandlers = {
#define DRLNET_OPERATION(name, lane, role) &Server::name,
#include "wire/operations.def"
#undef DRLNET_OPERATION
  };
  // The last fetch of this slot holds its version of the params: no client asks for it any more.
  if (lane_of(slot.operation) == Lane::control) slot.source.reset();
  return (this->*kHandlers[static_cast<size_t>(slot.operation)])(peer, slot, body);
}

void Server::run_again(const Waiter& waiter) {
  const bool draw = waiter.want == Waiter::Want::draw;
  sessions_.run_waiting(waiter.session, draw ? Lane::sample : Lane::append);
}

void Server::retry_waiting() {
  for (const Waiter& waiter : std::exchange(refused_, {})) run_again(waiter);
  for (const OpenTable& open : tables_) {
    while (const auto waiter = open.table->next_waiter()) run_again(*waiter);
  }
  if (!followers_.empty()) retry_followers();
  while (const auto session = questions_.next_ready()) {
    sessions_.run_waiting(*session, Lane::update);
  }
  if (!keeper_) return;
  for (const auto& [connection, lane] : keeper_->take_ready()) {
    sessions_.run_waiting(connection, lane);
  }
}

void Server::ended(Peer& peer) {
  for (const OpenTable& open : tables_) {
    if (peer.has_streams) open.table->streams().orphan(peer.client, now_ns());
    open.table->leave_line(peer.connection);
  }
  std::erase_if(followers_, [&](const Follower& one) { return one.session == peer.connection; });
  std::erase_if(refused_, [&](const Waiter& one) { return one.session == peer.connection; });
  questions_.ended(peer);
  if (keeper_) keeper_->ended(peer.connection);
  if (publisher_ == peer.client) {
    publisher_ = 0;
    staged_params_ = {};
  }
  remember_report(peer);
}

OpenTable* Server::open_table_for(uint32_t number, Slot& slot) {
  OpenTable* open = tables_.find(number);
  if (open == nullptr) refuse(slot, tables_.why_none(number));
  return open;
}

Table* Server::table_for(uint32_t number, Slot& slot) {
  const OpenTable* open = open_table_for(number, slot);
  return open != nullptr ? open->table.get() : nullptr;
}

uint16_t Server::refuse_beyond(Limit limit, Slot& slot, std::string_view cause,
                               std::string_view remedy) {
  sessions_.count_refusal(limit);
  return refuse(slot, Status::server_full, cause, remedy);
}

uint16_t Server::refuse(Slot& slot, Status status, std::string_view cause,
                        std::string_view remedy) {
  slot.status = status;
  slot.use_source = false;
  slot.bytes.clear();
  encode_error(cause, remedy, slot.bytes);
  return 0;
}

}  // namespace drlnet
