// A sampler by itself, every leaf live: what drawing and updating cost on one core, with no table,
// server or network around them. Threading: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "measure/loop.h"
#include "sampler/sampler.h"

namespace drlnet::measure {

class LiveSampler {
 public:
  // A leaf for each of `priorities`, one at least, which stay the caller's and must outlive this:
  // updates take theirs from there, too. Throws Error(config) for an unknown sampler or option.
  LiveSampler(const SamplerSpec& spec, std::span<const float> priorities, uint64_t seed);

  // Batches of slots and their probabilities.
  size_t draws(uint32_t batch, const Loop& loop);
  // Random slots get new priorities, the exponent included; choosing them is not timed.
  size_t updates(uint32_t batch, const Loop& loop);

  const Sampler& sampler() const { return *sampler_; }

 private:
  std::span<const float> priorities_;
  std::unique_ptr<Sampler> sampler_;
  Random random_, choices_;  // of draws, of updates
  size_t next_priority_ = 0;
  std::vector<uint32_t> slots_;  // of the call in hand
  std::vector<float> of_slots_;  // their probabilities, or new priorities
};

}  // namespace drlnet::measure
