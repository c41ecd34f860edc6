// Prioritized sampling (Schaul et al., 2016): an item is drawn with probability
// max(p, floor)^alpha / sum. A batch of k takes one draw from each of k equal parts of the mass.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/assert.h"
#include "sampler/sampler.h"
#include "sampler/sum_tree.h"

namespace drlnet {
namespace {

class Prioritized final : public Sampler {
 public:
  Prioritized(const SamplerSpec& spec, uint32_t leaves)
      : exponent_(static_cast<float>(spec.priority_exponent)),
        floor_(static_cast<float>(spec.priority_floor)),
        tree_(leaves) {}

  void insert(uint32_t slot, float priority) override {
    set(slot, stored(priority));
    ++size_;
  }
  void remove(uint32_t slot) override {
    set(slot, 0);
    --size_;
  }

  void update(std::span<const uint32_t> slots, std::span<const float> priorities) override {
    masses_.resize(slots.size());
    std::transform(priorities.begin(), priorities.end(), masses_.begin(),
                   [this](float priority) { return stored(priority); });
    tree_.set(slots, masses_);
  }

  void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) override {
    const size_t n = slots.size();
    const double total = tree_.total();
    DRLNET_ASSERT(total > 0);
    targets_.resize(n);
    const double part = total / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) {
      targets_[i] = std::min(total, (static_cast<double>(i) + random.uniform()) * part);
    }
    tree_.find(targets_, slots);
    for (size_t i = n; i > 1; --i) std::swap(slots[i - 1], slots[random.below(i)]);
    for (size_t i = 0; i < n; ++i) {
      probabilities[i] = static_cast<float>(static_cast<double>(tree_.get(slots[i])) / total);
    }
  }

  uint64_t size() const override { return size_; }
  double mass() const override { return tree_.total(); }

 private:
  // Kept within float32's normal range: a present leaf never has mass 0, nor an infinite one.
  float stored(float priority) const {
    return std::clamp(std::pow(std::max(priority, floor_), exponent_),
                      std::numeric_limits<float>::min(), std::numeric_limits<float>::max());
  }
  void set(uint32_t slot, float mass) { tree_.set({&slot, 1}, {&mass, 1}); }

  float exponent_, floor_;
  SumTree tree_;
  uint64_t size_ = 0;
  std::vector<float> masses_;    // scratch
  std::vector<double> targets_;  // scratch
};

}  // namespace

std::unique_ptr<Sampler> make_prioritized(const SamplerSpec& spec, uint32_t leaves) {
  refuse_options(spec);
  return std::make_unique<Prioritized>(spec, leaves);
}

}  // namespace drlnet
