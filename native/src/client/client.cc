#include "client/client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "base/world.h"

namespace drlnet {
namespace {

constexpr uint64_t kInterruptNs = 50'000'000;

// A call under way looks at the clock at least every kInterruptNs, unless its process is stopped.
// The time of a patient call at a server that reads its state is none of its own, either.
constexpr uint64_t kStoppedNs = 1'000'000'000;
std::atomic<uint64_t> stopped_ns = 0;  // in all
std::mutex stops_mutex;
uint64_t stops_end_ns = 0;  // of the newest one

void note_stop(uint64_t looked, uint64_t now) {
  const std::lock_guard lock(stops_mutex);  // other threads find the same one
  const uint64_t began = std::max(looked, stops_end_ns);
  if (now <= began) return;
  stopped_ns += now - began;
  stops_end_ns = now;
}
constexpr int kGlances = 16;  // of a spinning loop between two readings of the clock

std::string seconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", static_cast<double>(ns) / 1e9);
  return text;
}

// A server that has not answered at all: where a NIC's client is, its address says; the server is
// elsewhere. On Linux, packet sockets stay with a frame that a veth's other end does not take.
std::string remedy_of_silence(const std::string& address) {
  if (address.starts_with("dpdk:") && !is_loopback(address)) {
    return "start a server on that network, or correct to=...; where its interface has a smaller "
           "MTU than this one, add ,mtu=... (`ip link` shows both)";
  }
  return "start it with `drlnet serve --listen " + address + "`, or correct the address";
}

void sleep_at(const WaitPoint& point, int other_fd, uint64_t until) {
  if (point.fd < 0) until = std::min(until, point.look_again_ns);
  pollfd fds[2] = {{point.fd, POLLIN, 0}, {other_fd, POLLIN, 0}};
  sleep_on(fds, until);
}

}  // namespace

uint64_t waking_ns() { return now_ns() - stopped_ns; }

Deadline deadline_in(uint64_t ns) { return waking_ns() + ns; }

void throw_if_refused(Status status, std::span<const std::byte> reply) {
  if (status == Status::ok) return;
  std::string cause, remedy;
  if (!decode_error(reply, cause, remedy) || cause.empty()) {
    cause = "the server answered " + std::string(status_name(status));
  }
  throw Error(status, cause, remedy);
}

Client::Client(const ClientOptions& options, std::function<void()> interrupt,
               std::function<bool()> run_server)
    : Client(connect(options.address), options, std::move(interrupt), std::move(run_server)) {}

Client::Client(Connected connected, const ClientOptions& options, std::function<void()> interrupt,
               std::function<bool()> run_server)
    : options_(options),
      timeout_ns_(options.timeout_ns),
      interrupt_(std::move(interrupt)),
      run_server_(std::move(run_server)),
      connection_(std::move(connected), options.name, options.key) {
  open();
}

Client::~Client() {
  if (!mover_.joinable()) return;
  {
    const Lock lock = take_lock();
    stopping_ = true;
    begun_.notify_all();
    moved_.notify_all();
    if (watching_) wake_watcher();
  }
  mover_.join();
}

void Client::open() {
  Lock lock = take_lock();
  run_until(
      lock, deadline_in(timeout_ns_),
      [&] { return connection_.state() == Connection::State::open; },
      [&] {
        const bool refused = connection_.transport().counters().refused > 0;
        return std::string("the server's first answer") +
               (refused ? ": nothing listens on that address" : "");
      });
  opened_ = true;
}

void Client::run_until(Lock& lock, Deadline deadline, FunctionRef<bool()> condition,
                       FunctionRef<std::string()> waited_for) {
  uint64_t started = 0, spin_until = 0,
           interrupt_at = 0;  // set once there is something to wait for
  bool moved = false;
  for (uint64_t now = 0;;) {  // 0: one round at least, however short the deadline
    if (condition()) {
      if (started != 0) hand_over_watch();
      return;
    }
    if (connection_.state() == Connection::State::lost) throw *connection_.failure();
    // What still comes in may be the answer; but frames may come without end, of other calls.
    const Deadline end = deadline + stopped_ns;
    if (now >= end && (!moved || now - end >= kInterruptNs)) {
      hand_over_watch();
      const bool opening = connection_.state() == Connection::State::hello;
      if (const std::string loading = connection_.loading(now); !loading.empty()) {
        throw Error(Status::loading,
                    options_.address + ": waited " + seconds(now - started) + ": " + loading,
                    "wait until it has: `drlnet stats --server " + options_.address +
                        "` tells how far it is");
      }
      const std::string trouble = connection_.transport().trouble();
      throw Error(
          opening ? Status::transport : Status::timeout,
          options_.address + ": waited " + seconds(now - started) + " for " + waited_for() +
              (trouble.empty() ? trouble : " (" + trouble + ")"),
          opening ? remedy_of_silence(options_.address)
                  : "look at `drlnet stats --server " + options_.address + "`, or allow more time");
    }
    if (started != 0 && now >= interrupt_at) {
      if (interrupt_) {
        hand_over_watch();
        lock.unlock();
        interrupt_();
        lock.lock();
      }
      interrupt_at = now + kInterruptNs;
    }
    moved = connection_.progress();
    if (moved) tell_others();
    if (run_server_) moved |= run_server_();
    // Most calls end here, without another look at the clock.
    if (moved && condition()) return hand_over_watch();
    const uint64_t looked = now;
    now = now_ns();
    if (looked != 0) look_for_stop(looked, now);
    if (started == 0) {
      started = now;
      spin_until = now + (options_.poll == Poll::block ? 0 : kSpinNs);
      interrupt_at = now + kInterruptNs;
    }
    if (moved) continue;
    if (options_.poll == Poll::busy || now < spin_until) {
      for (int i = 0; i < kGlances && !moved; ++i) {
        spin_pause();
        give_way(lock);
        if (run_server_) break;
        moved = connection_.glance();
      }
      if (moved) tell_others();
      continue;
    }
    sleep(lock, std::min({connection_.next_deadline_ns(), end, interrupt_at}), true);
    look_for_stop(now, now_ns());  // the condition may be one of time
  }
}

void Client::look_for_stop(uint64_t looked, uint64_t now) const {
  if (now - looked >= kStoppedNs || waits_for_state(now)) note_stop(looked, now);
}

bool Client::waits_for_state(uint64_t now) const {
  return options_.patient && opened_ && !connection_.loading(now).empty();
}

void Client::sleep(Lock& lock, uint64_t until, bool for_answer) {
  const WaitPoint point = connection_.arm();
  if (watching_) {  // and sleeps on what it armed; but this thread has received since
    if (point.fd < 0) until = std::min(until, point.look_again_ns);
    const uint64_t now = now_ns();  // near the kernel's clock, not the same: only a span is waited
    if (now < until) moved_.wait_for(lock, std::chrono::nanoseconds(until - now));
    return;
  }
  watching_ = true;
  watcher_waits_ = for_answer;
  lock.unlock();
  sleep_at(point, wake_fd_.fd(), until);
  lock.lock();
  watching_ = false;
  if (woken_) wake_fd_.clear();
  woken_ = false;
  moved_.notify_all();  // one of them watches from now on, should this thread be done
}

// To receive is to end the wait that a transport was armed for. A thread that still sleeps would
// hear of no frame any more, and prefetched replies would not arrive between calls.
void Client::hand_over_watch() {
  if (!watching_ || woken_ || options_.poll == Poll::busy) return;
  const WaitPoint point = connection_.arm();
  if (point.fd < 0) wake_watcher();  // there is something already, or it has to look for itself
}

Client::Lock Client::take_lock() {
  Lock lock(mutex_, std::try_to_lock);
  if (lock) return lock;
  ++wanted_;
  lock.lock();
  --wanted_;
  return lock;
}

void Client::give_way(Lock& lock) {
  // What a thread takes to wake up. Without this time it would find the lock taken again.
  constexpr uint64_t kWakeNs = 100'000;
  if (wanted_ == 0) return;
  lock.unlock();
  const uint64_t until = now_ns() + kWakeNs;
  while (wanted_ > 0 && now_ns() < until) spin_pause();
  lock = take_lock();
}

void Client::tell_others() {
  moved_.notify_all();
  if (watching_ && watcher_waits_) wake_watcher();
}

void Client::wake_watcher() {
  if (!woken_) wake_fd_.wake();
  woken_ = true;
}

CallId Client::start(Operation operation, Deadline deadline, Fill fill,
                     const Destination& destination) {
  Lock lock = take_lock();
  return start(lock, now_ns(), operation, deadline, fill, destination);
}

CallId Client::start(Lock& lock, uint64_t now, Operation operation, Deadline deadline, Fill fill,
                     const Destination& destination) {
  if (!connection_.has_room(operation)) {
    run_until(
        lock, deadline, [&] { return connection_.has_room(operation); },
        [&] { return std::string(operation_name(operation)) + ": room for another request"; });
    now = now_ns();
  }
  Call& call = connection_.begin(operation);
  try {
    fill(call.body);
    if (call.body.size() > kMaxRequestBytes) {
      throw Error(Status::config,
                  std::string(operation_name(operation)) + ": " + std::to_string(call.body.size()) +
                      " bytes in one request, which holds " + std::to_string(kMaxRequestBytes),
                  "send less at once");
    }
  } catch (...) {
    connection_.withdraw(call);
    throw;
  }
  call.destination = destination;
  return connection_.submit(call, now);
}

bool Client::finished(CallId id) {
  Lock lock = take_lock();
  if (!connection_.done(id)) {
    if (connection_.progress()) tell_others();
    hand_over_watch();
  }
  if (run_server_) run_server_();
  return connection_.done(id);
}

void Client::wait(CallId id, Deadline deadline) {
  Lock lock = take_lock();
  wait(lock, id, deadline);
}

bool Client::wait(CallId id, Deadline deadline, uint64_t patience_ns) {
  Lock lock = take_lock();
  const Deadline look = deadline_in(patience_ns);
  run_until(
      lock, deadline,
      [&] { return connection_.done(id) || (waking_ns() >= look && held(connection_.call(id))); },
      [&] { return explain(connection_.call(id)); });
  return connection_.done(id);
}

bool Client::wait_for_room(Operation operation, Deadline deadline, uint64_t patience_ns) {
  Lock lock = take_lock();
  const Deadline look = deadline_in(patience_ns);
  const Call* other = nullptr;
  run_until(
      lock, deadline,
      [&] {
        other = connection_.in_the_way(operation);
        return other == nullptr || (waking_ns() >= look && held(*other));
      },
      [&] { return explain(*other) + ", and no room for another"; });
  return other == nullptr;
}

void Client::wait(Lock& lock, CallId id, Deadline deadline) {
  run_until(
      lock, deadline, [&] { return connection_.done(id); },
      [&] { return explain(connection_.call(id)); });
}

void Client::collect(CallId id, Deadline deadline, Visit visit) {
  Lock lock = take_lock();
  collect(lock, id, deadline, visit);
}

void Client::collect(CallId id, Deadline deadline, Visit visit, std::vector<std::byte>& body) {
  Lock lock = take_lock();
  collect(lock, id, deadline, visit, &body);
}

void Client::collect(Lock& lock, CallId id, Deadline deadline, Visit visit,
                     std::vector<std::byte>* body) {
  try {
    wait(lock, id, deadline);
  } catch (...) {
    if (!lock) lock.lock();  // the interruption comes without it
    connection_.abandon(id);
    throw;
  }
  struct Release {
    Connection& connection;
    CallId id;
    ~Release() { connection.release(id); }
  } release{connection_, id};
  Call& call = connection_.call(id);
  if (body != nullptr) body->swap(call.body);
  visit(call.status, call.result());
}

void Client::detach(CallId id) {
  Lock lock = take_lock();
  connection_.detach(id);
}

void Client::abandon(CallId id) {
  Lock lock = take_lock();
  connection_.abandon(id);
}

void Client::call(Operation operation, Fill fill,
                  FunctionRef<void(std::span<const std::byte>)> visit) {
  Lock lock = take_lock();
  const uint64_t now = now_ns();  // once: 35 ns on a virtual machine
  const Deadline deadline = now - stopped_ns + timeout_ns_;
  const CallId id = start(lock, now, operation, deadline, fill, {});
  collect(lock, id, deadline, [&](Status status, std::span<const std::byte> reply) {
    throw_if_refused(status, reply);
    visit(reply);
  });
}

void Client::keep_moving(size_t reply_bytes) {
  const Lock lock = take_lock();
  if (!follows_ && reply_bytes > connection_.eager_bytes()) {
    follows_ = true;
    begun_.notify_all();
  }
  if (mover_.joinable() || run_server_) return;
  mover_ = std::thread([this] { background(); });
}

void Client::background() {
  // Timers of calls that other threads begin are seen at the next round at the latest.
  constexpr uint64_t kRoundNs = 20'000'000;
  Lock lock = take_lock();
  // A lost session moves no more: the next call is told why.
  while (!stopping_ && connection_.state() != Connection::State::lost) {
    if (connection_.progress()) {
      tell_others();
      give_way(lock);
    } else if (!follows_) {
      hand_over_watch();
      begun_.wait_for(lock, std::chrono::nanoseconds(kRoundNs));
    } else {
      sleep(lock, std::min(connection_.next_deadline_ns(), now_ns() + kRoundNs), false);
    }
  }
}

}  // namespace drlnet
