// An open loop: requests of one client leave when they are due, whatever became of those before,
// as those of many independent clients would. A latency runs from the time at which its request was
// due: what a stall does to all that wait behind it counts (no coordinated omission).
// Threading: one thread. Errors: those of a session; Error(timeout) for answers that stay away.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/poll.h"
#include "session/client/connection.h"
#include "spec/items.h"
#include "transport/faulty.h"

namespace drlnet::measure {

// What became of a run's requests.
struct Offered {
  uint64_t answered = 0;    // the others had no answer when the run was given up
  uint64_t elapsed_ns = 0;  // from the first answer to the last, or until it was given up
};

class OpenLoop {
 public:
  // Opens a session. plan: of the frames of each direction, by the built-in faulty link; where it
  // loses and delays nothing there is none.
  OpenLoop(const std::string& address, Poll poll, const FaultPlan& plan);

  // What a request is, from now on.
  void ping(size_t payload_bytes);
  // A row of the table's only column, and its item; as appends() in measure/calls.h.
  void append(uint32_t table, const Lease& lease, std::span<const std::byte> row);
  void sample(uint32_t table, uint32_t batch, size_t reply_bytes);

  // Requests at random times of that rate (a Poisson process of a given length), one for
  // each place of latencies_ns and late_ns, which has how long after its due time each left: the
  // generator's own lateness, and what a full window of the lane made it wait. Given up after
  // limit_ns: requests without an answer have the time that they have waited until then.
  Offered run(double per_second, uint64_t limit_ns, uint64_t seed, std::span<uint64_t> latencies_ns,
              std::span<uint64_t> late_ns);

 private:
  struct Way {
    CallId call;
    size_t number;
    uint64_t due_ns;
  };

  void submit(size_t number, uint64_t due_ns);
  void take_answers(uint64_t now, std::span<uint64_t> latencies_ns);
  bool move();
  void wait(uint64_t until_ns);

  Transport* link_ = nullptr;  // below the faulty one, to sleep on
  Poll poll_;
  Connection connection_;
  Operation operation_ = Operation::ping;
  std::function<void(std::vector<std::byte>&)> fill_;
  std::vector<std::vector<std::byte>> replies_;  // memory for the answers of samples, by place
  std::vector<Way> under_way_;
  uint64_t answered_ = 0, first_answer_ns_ = 0;
};

}  // namespace drlnet::measure
