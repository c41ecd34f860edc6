// Prioritized sampling (Schaul et al., 2016): an item is drawn with probability
// max(p, floor)^alpha / sum. A batch of k takes one draw from each of k equal parts of the mass.
// Masses and the floor are kept within float32's normal range: a present leaf never has mass 0, nor
// an infinite one.
#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "sampler/kernels/kernel.h"
#include "sampler/sampler.h"
#include "sampler/sum_tree.h"

namespace drlnet {
namespace {

class Prioritized final : public Sampler {
 public:
  Prioritized(const SamplerSpec& spec, uint32_t leaves, const Kernel& kernel)
      : kernel_(kernel),
        exponent_(static_cast<float>(spec.priority_exponent)),
        floor_(
            std::max(static_cast<float>(spec.priority_floor), std::numeric_limits<float>::min())),
        tree_(leaves, kernel) {}

  void insert(uint32_t slot, float priority) override {
    update({&slot, 1}, {&priority, 1});
    ++size_;
  }
  void remove(uint32_t slot) override {
    const float mass = 0;
    tree_.set({&slot, 1}, {&mass, 1});
    --size_;
  }

  void update(std::span<const uint32_t> slots, std::span<const float> priorities) override {
    masses_.resize(slots.size());
    kernel_.power(priorities.data(), masses_.data(), slots.size(), floor_, exponent_);
    tree_.set(slots, masses_);
  }

  void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) override {
    const size_t n = slots.size();
    const double total = tree_.total();
    DRLNET_ASSERT(total > 0);
    targets_.resize(n);
    kernel_.stratify(random.bits(), total, targets_.data(), n);
    tree_.find(targets_, slots);
    shuffle(slots, random);
    const double scale = 1 / total;
    for (size_t i = 0; i < n; ++i) {
      probabilities[i] = static_cast<float>(static_cast<double>(tree_.get(slots[i])) * scale);
    }
  }

  float stored(uint32_t slot) const override { return tree_.get(slot); }
  uint64_t size() const override { return size_; }
  double mass() const override { return tree_.total(); }

 private:
  // Strata are in the order of slots. Fisher and Yates, two of their random numbers to a word.
  void shuffle(std::span<uint32_t> slots, Random& random) {
    words_.resize(slots.size() / 2 + 1);
    kernel_.random_words(random.bits(), words_.data(), words_.size());
    for (size_t i = slots.size(); i > 1; --i) {
      const auto bits = static_cast<uint32_t>(words_[i / 2] >> (i % 2 * 32));
      std::swap(slots[i - 1], slots[random.below(static_cast<uint32_t>(i), bits)]);
    }
  }

  const Kernel& kernel_;
  float exponent_, floor_;
  SumTree tree_;
  uint64_t size_ = 0;
  std::vector<float> masses_;    // scratch
  std::vector<double> targets_;  // scratch
  std::vector<uint64_t> words_;  // scratch
};

}  // namespace

std::unique_ptr<Sampler> make_prioritized(const SamplerSpec& spec, uint32_t leaves) {
  refuse_options(spec);
  return std::make_unique<Prioritized>(spec, leaves, chosen_kernel());
}

}  // namespace drlnet
