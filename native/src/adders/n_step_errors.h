// First priorities of n-step items: the TD errors of an actor's own steps (drlnet/adders/n_step.py
// has the equation).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace drlnet {

// A row of each of M streams, as an actor has just appended it: [M], q [M, actions].
struct ActedRows {
  std::span<const float> reward, discount, q;
  std::span<const int32_t> action;
  std::span<const int64_t> step;
  std::span<const uint8_t> last;
  std::span<const uint8_t> present;  // the streams that have a row; empty: all
};

// Items that are complete, by their anchors' steps.
struct ErrorItems {
  std::vector<int64_t> streams, steps;
  std::vector<float> priorities;
};

// Follows M streams row by row. Not thread-safe.
class NStepErrors {
 public:
  NStepErrors(uint32_t streams, uint32_t n, double gamma, std::optional<float> reward_clip);

  uint32_t streams() const { return streams_; }

  // Takes rows, and returns the items that they complete, the oldest anchor first. Throws
  // Error(config) for an action that q has not.
  ErrorItems push(const ActedRows& rows);

 private:
  struct Anchor {
    bool open = false;
    uint32_t age = 0;
    int64_t step = 0;
    double q_taken = 0, returns = 0, factor = 1;
  };

  uint32_t streams_, n_;
  float gamma_;
  std::optional<float> reward_clip_;
  std::vector<Anchor> anchors_;  // [n, M]: at most n of a stream are open at once
  std::vector<uint32_t> next_;   // [M]: the slot of the next anchor
};

}  // namespace drlnet
