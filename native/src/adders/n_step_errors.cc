#include "adders/n_step_errors.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/assert.h"
#include "base/error.h"

namespace drlnet {

NStepErrors::NStepErrors(uint32_t streams, uint32_t n, double gamma,
                         std::optional<float> reward_clip)
    : streams_(streams),
      n_(n),
      gamma_(static_cast<float>(gamma)),
      reward_clip_(reward_clip),
      anchors_(static_cast<size_t>(streams) * n),
      next_(streams, 0) {}

ErrorItems NStepErrors::push(const ActedRows& rows) {
  for (const size_t size : {rows.reward.size(), rows.discount.size(), rows.action.size(),
                            rows.step.size(), rows.last.size()}) {
    DRLNET_ASSERT(size == streams_);
  }
  DRLNET_ASSERT(rows.present.empty() || rows.present.size() == streams_);
  const size_t actions = rows.q.size() / streams_;
  const auto present = [&](size_t m) { return rows.present.empty() || rows.present[m] != 0; };
  for (size_t m = 0; m < streams_; ++m) {
    const int64_t action = rows.action[m];
    const bool taken = present(m) && rows.last[m] == 0;
    if (!taken || (action >= 0 && action < static_cast<int64_t>(actions))) continue;
    throw Error(Status::config,
                "action is " + std::to_string(action) + ", where q has " + std::to_string(actions) +
                    " actions",
                "give the actions that were taken, from 0");
  }
  std::vector<double> best(streams_);
  for (size_t m = 0; m < streams_; ++m) {
    const auto q = rows.q.subspan(m * actions, actions);
    best[m] = *std::max_element(q.begin(), q.end());
  }
  ErrorItems complete;
  for (size_t slot = 0; slot < n_; ++slot) {
    for (size_t m = 0; m < streams_; ++m) {
      Anchor& anchor = anchors_[slot * streams_ + m];
      if (!anchor.open || !present(m)) continue;
      float reward = rows.reward[m];
      if (reward_clip_) reward = std::clamp(reward, -*reward_clip_, *reward_clip_);
      anchor.returns += anchor.factor * static_cast<double>(reward);
      anchor.factor *= static_cast<double>(gamma_ * rows.discount[m]);
      if (++anchor.age != n_ && rows.last[m] == 0) continue;
      anchor.open = false;
      complete.streams.push_back(static_cast<int64_t>(m));
      complete.steps.push_back(anchor.step);
      const double error = anchor.returns + anchor.factor * best[m] - anchor.q_taken;
      complete.priorities.push_back(static_cast<float>(std::abs(error)));
    }
  }
  for (size_t m = 0; m < streams_; ++m) {
    if (!present(m) || rows.last[m] != 0) continue;
    const size_t action = static_cast<size_t>(rows.action[m]);
    anchors_[(next_[m]++ % n_) * streams_ + m] = {
        .open = true, .step = rows.step[m], .q_taken = rows.q[m * actions + action]};
  }
  // By step: the oldest anchor of a stream first, so that its items keep their order.
  std::vector<size_t> order(complete.steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return complete.steps[a] < complete.steps[b]; });
  ErrorItems sorted;
  for (const size_t i : order) {
    sorted.streams.push_back(complete.streams[i]);
    sorted.steps.push_back(complete.steps[i]);
    sorted.priorities.push_back(complete.priorities[i]);
  }
  return sorted;
}

}  // namespace drlnet
