// Why requests wait, how often, and for how long.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/metrics.h"

namespace drlnet {

// The reason travels in pending.
enum class Wait : uint16_t {
  none = 0,
  min_size = 1,       // fewer live items than min_size
  samples_limit = 2,  // draws are ahead: waits for insertions
  inserts_limit = 3,  // insertions are ahead: waits for draws
  answer = 4,         // a question: waits for the client that answers
  questions = 5,      // the client that answers: waits for questions
  rows = 6,           // a follower: has all rows, waits for the next ones
  disk = 7,           // the server's disk: what an answer promises is not there yet
  state = 8,          // the server, which still reads rows of its state
};
constexpr std::array<const char*, 9> kWaitNames = {"none",          "min_size", "samples_limit",
                                                   "inserts_limit", "answer",   "questions",
                                                   "rows",          "disk",     "state"};
constexpr size_t kLimiterReasons = 4;  // those before it are the limiter's

// Waits by reason, those under way included, without a list of them: the sum of their starts is
// enough. Threading: one thread. O(1).
class WaitTimes {
 public:
  void begin(uint16_t reason, uint64_t now_ns) {
    Waits& waits = waits_[reason];
    ++waits.count;
    ++waits.under_way;
    waits.starts_ns += now_ns;
  }
  // since_ns: what begin() was told.
  void end(uint16_t reason, uint64_t since_ns, uint64_t now_ns) {
    Waits& waits = waits_[reason];
    --waits.under_way;
    waits.starts_ns -= since_ns;
    waits.ended_ns += now_ns - std::min(since_ns, now_ns);  // see read_times()
  }
  void read_counts(const std::string& prefix, Metrics& metrics) const {
    for (size_t i = 1; i < kLimiterReasons; ++i) {
      metrics.set(prefix + "limiter_waits." + kWaitNames[i], waits_[i].count);
    }
  }
  void read_times(const std::string& prefix, Metrics& metrics, uint64_t now_ns) const {
    for (size_t i = 1; i < kLimiterReasons; ++i) {
      const Waits& waits = waits_[i];
      const auto under_way = static_cast<int64_t>(waits.under_way * now_ns - waits.starts_ns);
      // Another thread's clock may be a moment behind the one that began a wait.
      const auto total_ns = static_cast<double>(waits.ended_ns) +
                            static_cast<double>(std::max<int64_t>(under_way, 0));
      metrics.set(prefix + "limiter_wait_s." + kWaitNames[i], total_ns / 1e9);
    }
  }

 private:
  struct Waits {
    uint64_t count = 0, under_way = 0;
    uint64_t starts_ns = 0;  // of those under way, added up; wraps round, and back
    uint64_t ended_ns = 0;
  };
  std::array<Waits, kWaitNames.size()> waits_{};
};

}  // namespace drlnet
