// Many actors in one thread: each a session with a stream of its own, whose appends leave when they
// are due, whatever became of those before (an open loop, as measure/open_loop.h). All have one
// rate, each its own phase.
// Threading: one thread. Errors: those of a session; Error(timeout) for answers that stay away.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "measure/open_loop.h"
#include "session/client/connection.h"
#include "spec/items.h"
#include "spec/table_spec.h"

namespace drlnet::measure {

class Crowd {
 public:
  // rows: of an append, with an item on each. The table has this spec and is open.
  Crowd(std::string address, uint32_t table, const TableSpec& spec, uint32_t rows);
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // Opens sessions until there are that many. Those that are there stay when one is refused.
  void grow(size_t sessions);
  size_t size() const { return members_.size(); }

  // Acknowledged so far, in all runs.
  struct Totals {
    uint64_t appends = 0, rows_stored = 0, items_created = 0;
  };
  const Totals& totals() const { return totals_; }

  // As many appends of each member as there are places for it in latencies_ns [members, appends]:
  // since they were due; late_ns: how long after that each left. Given up after limit_ns: appends
  // without an answer have the time that they have waited until then. Those that were sent are
  // answered before it returns.
  Offered run(double steps_per_second, uint64_t limit_ns, uint64_t seed,
              std::span<uint64_t> latencies_ns, std::span<uint64_t> late_ns);

 private:
  struct Way {
    CallId call;
    size_t place;  // of its latency
    uint64_t due_ns;
  };
  struct Member {
    Member(Connected connected, size_t number)
        : connection(std::move(connected), "actor"), place(number) {}
    Connection connection;
    size_t place;          // among them
    bool watched = false;  // by epoll_
    bool asked = false, joined = false;
    CallId leasing;
    Lease lease{};
    std::deque<Way> under_way;
    // In the run: when its first append is due, how many are, were sent and answered.
    uint64_t first_due_ns = 0;
    size_t due = 0, sent = 0, answered = 0;
  };
  struct Run;

  void join(Member& member);
  void move(Member& member, Run* run);
  void send_due(Member& member, Run& run, uint64_t now);
  void fill(const Lease& lease, std::vector<std::byte>& body) const;
  bool look(Run* run);
  void look_at_timers(Run* run, uint64_t now);
  void wait(uint64_t until_ns);
  void drain();

  std::string address_;
  uint32_t table_, rows_;
  std::vector<std::vector<std::byte>> columns_;  // of an append, each
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<pollfd> waiting_;  // scratch
  Totals totals_;
  int epoll_ = -1;
};

}  // namespace drlnet::measure
