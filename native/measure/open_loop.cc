#include "measure/open_loop.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
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

Connected connected(const std::string& address, const FaultPlan& plan, Transport*& link) {
  Connected made = connect(address);
  link = made.transport.get();
  if (plan.drop > 0 || plan.delay_ns > 0) {
    FaultPlan back = plan;
    ++back.seed;
    made.transport = std::make_unique<FaultyTransport>(std::move(made.transport), plan, back);
  }
  return made;
}

[[noreturn]] void throw_silence(const std::string& waited_for) {
  throw Error(Status::timeout, "waited 10 s for " + waited_for,
              "look at the server, or let the link lose less");
}

}  // namespace

OpenLoop::OpenLoop(const std::string& address, Poll poll, const FaultPlan& plan)
    : poll_(poll), connection_(connected(address, plan, link_), "load") {
  // Else the kernel lets this thread oversleep by 50 us, to wake it together with others.
  prctl(PR_SET_TIMERSLACK, 1);
  const Deadline deadline = deadline_in(kPatienceNs);
  while (connection_.state() != Connection::State::open) {
    if (connection_.state() == Connection::State::lost) throw *connection_.failure();
    if (now_ns() >= deadline) throw_silence("the server's first answer");
    if (!connection_.progress()) wait(deadline);
  }
  ping(0);
}

void OpenLoop::ping(size_t payload_bytes) {
  operation_ = Operation::ping;
  fill_ = [payload_bytes](auto& body) { body.assign(payload_bytes, std::byte{0x5a}); };
  replies_.clear();
}

void OpenLoop::append(uint32_t table, const Lease& lease, std::span<const std::byte> row) {
  operation_ = Operation::append;
  fill_ = [=, next = lease.next_step,
           row = std::vector(row.begin(), row.end())](std::vector<std::byte>& body) mutable {
    const AppendItem item{lease.ordinal, lease.epoch, next, 0, kUseMaximum};
    ByteWriter writer(body);
    writer.put(AppendHeader{table, 1, 1, 1});
    writer.put(AppendSegment{lease.ordinal, lease.epoch, lease.token, next, 1, 0});
    writer.put(static_cast<uint8_t>(next == 0 ? kFirst : 0));
    writer.align8();
    writer.raw(row);
    writer.align8();
    writer.put(item);
    ++next;
  };
  replies_.clear();
}

void OpenLoop::sample(uint32_t table, uint32_t batch, size_t reply_bytes) {
  operation_ = Operation::sample;
  fill_ = [=](auto& body) { ByteWriter(body).put(SampleRequest{table, batch}); };
  replies_.assign(kLaneWindow[static_cast<size_t>(Lane::sample)],
                  std::vector<std::byte>(reply_bytes));
}

Offered OpenLoop::run(double per_second, uint64_t limit_ns, uint64_t seed,
                      std::span<uint64_t> latencies_ns, std::span<uint64_t> late_ns) {
  DRLNET_ASSERT(per_second > 0 && latencies_ns.size() == late_ns.size());
  const size_t count = latencies_ns.size();
  // Twice the same gaps: their sum makes the time of all exactly as long as the rate says.
  const auto gap = [](Random& random) { return -std::log1p(-random.uniform()); };
  Random random(seed), again(seed);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += gap(random);
  const double gap_ns = static_cast<double>(count) / per_second * 1e9 / sum;
  const uint64_t begin = now_ns(), end = begin + limit_ns;
  double due_ns = 0;
  const auto due_after = [&] {
    due_ns += gap(again) * gap_ns;
    return begin + static_cast<uint64_t>(due_ns);
  };
  uint64_t now = begin, due = due_after();
  size_t sent = 0;
  answered_ = first_answer_ns_ = 0;
  while (answered_ < count && now < end) {
    const bool moved = move();
    now = now_ns();
    if (moved) take_answers(now, latencies_ns);
    const bool room = connection_.has_room(operation_);
    if (sent < count && due <= now && room) {
      late_ns[sent] = now - due;
      submit(sent++, due);
      due = due_after();
    } else if (!moved) {
      wait(std::min(room && sent < count ? due : end, end));
    }
  }
  const Offered offered{answered_, answered_ > 0 ? now - first_answer_ns_ : limit_ns};
  for (const Way& way : under_way_) latencies_ns[way.number] = now - std::min(now, way.due_ns);
  for (; sent < count; ++sent, due = due_after()) {
    latencies_ns[sent] = late_ns[sent] = now - std::min(now, due);
  }
  // The lane is empty for the next run. What comes now was counted above.
  const Deadline deadline = deadline_in(kPatienceNs);
  while (!under_way_.empty()) {
    if (now_ns() >= deadline) throw_silence("answers to what was offered");
    if (move()) {
      take_answers(now_ns(), {});
    } else {
      wait(deadline);
    }
  }
  return offered;
}

void OpenLoop::submit(size_t number, uint64_t due_ns) {
  Call& call = connection_.begin(operation_);
  fill_(call.body);
  if (!replies_.empty()) call.destination = std::span(replies_[call.request % replies_.size()]);
  under_way_.push_back({connection_.submit(call), number, due_ns});
}

// latencies_ns: empty for answers that come too late to count.
void OpenLoop::take_answers(uint64_t now, std::span<uint64_t> latencies_ns) {
  std::erase_if(under_way_, [&](const Way& way) {
    if (!connection_.done(way.call)) return false;
    const Call& call = connection_.call(way.call);
    throw_if_refused(call.status, call.result());
    connection_.release(way.call);
    if (!latencies_ns.empty()) {
      latencies_ns[way.number] = now - way.due_ns;
      if (answered_++ == 0) first_answer_ns_ = now;
    }
    return true;
  });
}

bool OpenLoop::move() {
  const bool moved = connection_.progress();
  if (connection_.state() == Connection::State::lost) throw *connection_.failure();
  return moved;
}

// Until something may have come, or a timer of the session's, or `until`.
void OpenLoop::wait(uint64_t until) {
  until = std::min(until, connection_.next_deadline_ns());
  if (poll_ == Poll::busy) return spin_pause();
  WaitPoint point = connection_.arm();
  if (point.fd < 0) {
    until = std::min(until, point.look_again_ns);
    // A faulty link that holds frames says when the next is released; others come meanwhile.
    if (&connection_.transport() != link_) point = link_->arm();
    if (point.fd < 0) until = std::min(until, point.look_again_ns);
  }
  pollfd fd{point.fd, POLLIN, 0};
  sleep_on({&fd, 1}, until);
}

}  // namespace drlnet::measure
