#include "measure/samplers.h"

#include "base/assert.h"

namespace drlnet::measure {
LiveSampler::LiveSampler(const SamplerSpec& spec, std::span<const float> priorities, uint64_t seed)
    : priorities_(priorities),
      sampler_(make_sampler(spec, static_cast<uint32_t>(priorities.size()))),
      random_(seed),
      choices_(seed + 1) {
  DRLNET_ASSERT(!priorities.empty());
  uint32_t slot = 0;
  for (const float priority : priorities) sampler_->insert(slot++, priority);
}

size_t LiveSampler::draws(uint32_t batch, const Loop& loop) {
  slots_.resize(batch);
  of_slots_.resize(batch);
  return run(loop, [&] { sampler_->draw(slots_, of_slots_, random_); });
}

size_t LiveSampler::updates(uint32_t batch, const Loop& loop) {
  slots_.resize(batch);
  of_slots_.resize(batch);
  const auto choose = [&] {
    for (uint32_t i = 0; i < batch; ++i) {
      slots_[i] = static_cast<uint32_t>(choices_.below(priorities_.size()));
      of_slots_[i] = priorities_[next_priority_];
      next_priority_ = (next_priority_ + 1) % priorities_.size();
    }
  };
  return run(loop, choose, [&] {
    sampler_->update(slots_, of_slots_);
    sampler_->work_ahead(random_);
  });
}

}  // namespace drlnet::measure
