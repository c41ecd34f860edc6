#include "measure/crowd.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/random.h"
#include "base/world.h"
#include "client/client.h"
#include "spec/append.h"
#include "wire/codec.h"
#include "wire/messages.h"

namespace drlnet::measure {
namespace {

constexpr uint64_t kPatienceNs = 10'000'000'000;
constexpr uint64_t kTimersNs = 5'000'000;  // between two looks at the sessions' timers
constexpr size_t kJoining = 16;  // sessions that are opened together: hellos are padded to 64 KiB
constexpr size_t kBurst = 32;    // appends that leave between two looks for answers

}  // namespace

// One run's schedule and figures.
struct Crowd::Run {
  size_t appends;  // of each member
  double interval_ns;
  std::span<uint64_t> latencies_ns, late_ns;
  uint64_t answered = 0;

  uint64_t due_ns(const Member& member, size_t append) const {
    return member.first_due_ns + static_cast<uint64_t>(static_cast<double>(append) * interval_ns);
  }
};

Crowd::Crowd(std::string address, uint32_t table, const TableSpec& spec, uint32_t rows)
    : address_(std::move(address)), table_(table), rows_(rows) {
  DRLNET_ASSERT(rows > 0);
  Random random(1);
  std::vector<uint32_t> row_bytes;
  for (const ColumnSpec& column : spec.columns) {
    row_bytes.push_back(static_cast<uint32_t>(column.bytes()));
    std::vector<std::byte>& values = columns_.emplace_back(column.bytes() * rows);
    // Small enough that no four of them make a NaN.
    for (std::byte& value : values) value = static_cast<std::byte>(random.bits() & 0x3f);
  }
  if (append_bytes(row_bytes, 1, rows, rows) > kMaxRequestBytes) {
    throw Error(Status::config, std::to_string(rows) + " rows are too long for one append",
                "append fewer rows at once: a request takes 256 KiB");
  }
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) {
    throw Error(Status::transport, std::string("no epoll: ") + std::strerror(errno),
                "raise the limit on open files (ulimit -n)");
  }
  // Else the kernel lets this thread oversleep by 50 us, to wake it together with others.
  prctl(PR_SET_TIMERSLACK, 1);
}

Crowd::~Crowd() { close(epoll_); }

void Crowd::grow(size_t sessions) {
  size_t joined = members_.size();
  try {
    while (joined < sessions) {
      while (members_.size() < std::min(sessions, joined + kJoining)) {
        members_.push_back(std::make_unique<Member>(connect(address_), members_.size()));
      }
      const Deadline deadline = deadline_in(kPatienceNs);
      for (; joined < members_.size(); ++joined) {
        Member& member = *members_[joined];
        while (!member.joined) {
          if (now_ns() >= deadline) {
            throw Error(Status::timeout,
                        "waited 10 s for the server's answer to a session's first request",
                        "look at `drlnet stats --server " + address_ + "`");
          }
          bool moved = false;
          for (size_t i = joined; i < members_.size(); ++i) {
            moved |= members_[i]->connection.progress();
            join(*members_[i]);
          }
          if (moved || member.joined) continue;
          const WaitPoint point = member.connection.arm();
          const uint64_t look = point.fd < 0 ? point.look_again_ns : deadline;
          pollfd fd{point.fd, POLLIN, 0};
          sleep_on({&fd, 1}, std::min({look, member.connection.next_deadline_ns(), deadline}));
        }
      }
    }
  } catch (...) {
    std::erase_if(members_, [](const auto& member) { return !member->joined; });
    for (size_t i = 0; i < members_.size(); ++i) members_[i]->place = i;
    throw;
  }
}

// The next step on its way to a stream of its own.
void Crowd::join(Member& member) {
  Connection& connection = member.connection;
  if (connection.state() == Connection::State::lost) throw *connection.failure();
  if (member.joined || connection.state() != Connection::State::open) return;
  if (!member.asked) {
    Call& call = connection.begin(Operation::lease);
    ByteWriter(call.body).put(LeaseRequest{table_, 1});
    member.leasing = connection.submit(call);
    member.asked = true;
  }
  if (!connection.done(member.leasing)) return;
  const Call& call = connection.call(member.leasing);
  throw_if_refused(call.status, call.result());
  member.lease = ByteReader(call.result()).get<Lease>();
  connection.release(member.leasing);
  member.joined = true;
  // A socket's descriptor is one to wait for always; other links say one for each wait.
  if (connection.transport().kind() == "udp") {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &member;
    member.watched = epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.arm().fd, &event) == 0;
  }
}

Offered Crowd::run(double steps_per_second, uint64_t limit_ns, uint64_t seed,
                   std::span<uint64_t> latencies_ns, std::span<uint64_t> late_ns) {
  const size_t count = latencies_ns.size();
  DRLNET_ASSERT(steps_per_second > 0 && late_ns.size() == count);
  DRLNET_ASSERT(!members_.empty() && count % members_.size() == 0);
  Run run{count / members_.size(), rows_ * 1e9 / steps_per_second, latencies_ns, late_ns};
  const uint64_t begin = now_ns(), end = begin + limit_ns;
  Random random(seed);
  std::vector<std::pair<uint64_t, size_t>>
      order;  // all intervals are alike, and so are their orders
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = *members_[i];
    member.first_due_ns = begin + static_cast<uint64_t>(random.uniform() * run.interval_ns);
    member.due = member.sent = member.answered = 0;
    order.emplace_back(member.first_due_ns, i);
  }
  std::ranges::sort(order);
  uint64_t now = begin, timers_ns = begin;
  size_t next = 0;
  while (run.answered < count && now < end) {
    const bool moved = look(&run);
    now = now_ns();
    const auto due_ns = [&](size_t number) {
      return run.due_ns(*members_[order[number % order.size()].second], number / order.size());
    };
    size_t burst = 0;
    for (; burst < kBurst && next < count && due_ns(next) <= now; ++burst) {
      Member& member = *members_[order[next++ % order.size()].second];
      ++member.due;
      send_due(member, run, now);
    }
    if (now >= timers_ns) {
      look_at_timers(&run, now);
      timers_ns = now + kTimersNs;
    }
    if (!moved && burst == 0) wait(std::min({next < count ? due_ns(next) : end, timers_ns, end}));
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = *members_[i];
    for (size_t append = member.answered; append < run.appends; ++append) {
      const uint64_t waited = now - std::min(now, run.due_ns(member, append));
      latencies_ns[i * run.appends + append] = waited;
      if (append >= member.sent) late_ns[i * run.appends + append] = waited;
    }
  }
  drain();
  return {run.answered, now - begin};
}

// What was sent is acknowledged. What comes now was not in time.
void Crowd::drain() {
  const Deadline deadline = deadline_in(kPatienceNs);
  const auto idle = [](const auto& member) { return member->under_way.empty(); };
  for (uint64_t timers_ns = 0; !std::ranges::all_of(members_, idle);) {
    const uint64_t now = now_ns();
    if (now >= deadline) {
      throw Error(Status::timeout, "waited 10 s for answers to what was offered",
                  "offer less, or look at the server");
    }
    if (now >= timers_ns) {
      look_at_timers(nullptr, now);
      timers_ns = now + kTimersNs;
    }
    if (!look(nullptr)) wait(timers_ns);
  }
}

// Those that have come: of members on sockets, where the kernel knows of some.
bool Crowd::look(Run* run) {
  std::array<epoll_event, 256> ready;
  const int count = epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i)
    move(*static_cast<Member*>(ready[static_cast<size_t>(i)].data.ptr), run);
  bool moved = count > 0;
  for (const auto& member : members_) {
    if (member->watched) continue;
    const size_t before = member->under_way.size();
    move(*member, run);
    moved |= member->under_way.size() != before;
  }
  return moved;
}

void Crowd::look_at_timers(Run* run, uint64_t now) {
  for (const auto& member : members_) {
    if (member->connection.next_deadline_ns() <= now) move(*member, run);
  }
}

// A round of its session; what was answered counts. run: null once it is over.
void Crowd::move(Member& member, Run* run) {
  member.connection.progress();
  if (member.connection.state() == Connection::State::lost) throw *member.connection.failure();
  const uint64_t now = now_ns();
  while (!member.under_way.empty() && member.connection.done(member.under_way.front().call)) {
    const Way way = member.under_way.front();
    const Call& call = member.connection.call(way.call);
    throw_if_refused(call.status, call.result());
    const auto result = ByteReader(call.result()).get<AppendResult>();
    ++totals_.appends;
    totals_.rows_stored += result.rows_stored;
    totals_.items_created += result.items_created;
    member.connection.release(way.call);
    member.under_way.pop_front();
    if (run == nullptr) continue;
    run->latencies_ns[way.place] = now - way.due_ns;
    ++member.answered;
    ++run->answered;
  }
  if (run != nullptr) send_due(member, *run, now);
}

// As many as its window takes.
void Crowd::send_due(Member& member, Run& run, uint64_t now) {
  Connection& connection = member.connection;
  while (member.sent < member.due && connection.has_room(Operation::append)) {
    const uint64_t due_ns = run.due_ns(member, member.sent);
    const size_t place = member.place * run.appends + member.sent++;
    run.late_ns[place] = now - std::min(now, due_ns);
    Call& call = connection.begin(Operation::append);
    fill(member.lease, call.body);
    member.lease.next_step += rows_;
    member.under_way.push_back({connection.submit(call), place, due_ns});
  }
}

void Crowd::fill(const Lease& lease, std::vector<std::byte>& body) const {
  ByteWriter writer(body);
  writer.put(AppendHeader{table_, 1, rows_, rows_});
  writer.put(AppendSegment{lease.ordinal, lease.epoch, lease.token, lease.next_step, rows_, 0});
  for (uint32_t row = 0; row < rows_; ++row) {
    writer.put(static_cast<uint8_t>(lease.next_step + row == 0 ? kFirst : 0));
  }
  writer.align8();
  for (const auto& values : columns_) {
    writer.raw(values);
    writer.align8();
  }
  for (uint32_t row = 0; row < rows_; ++row) {
    writer.put(AppendItem{lease.ordinal, lease.epoch, lease.next_step + row, 0, kUseMaximum});
  }
}

// Until something may have come, or then.
void Crowd::wait(uint64_t until) {
  std::vector<pollfd>& fds = waiting_;
  fds.assign(1, {epoll_, POLLIN, 0});
  for (const auto& member : members_) {
    if (member->watched) continue;
    const WaitPoint point = member->connection.arm();
    if (point.fd < 0) until = std::min(until, point.look_again_ns);
    if (point.fd >= 0) fds.push_back({point.fd, POLLIN, 0});
  }
  sleep_on(fds, until);
}

}  // namespace drlnet::measure
