// Prioritized sampling (Schaul et al., 2016): an item is drawn with probability
// max(p, floor)^alpha / sum. A batch of k takes one draw from each of k equal parts of the mass.
// Masses and the floor are kept within float32's normal range: a present leaf never has mass 0, nor
// an infinite one.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

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
    put_off(slot, priority);
    ++size_;
  }
  void remove(uint32_t slot) override {
    put_off(slot, kAbsent);
    --size_;
  }

  void update(std::span<const uint32_t> slots, std::span<const float> priorities) override {
    catch_up();
    tree_.set(slots, masses_of(priorities));
  }

  void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) override {
    catch_up();
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

  float stored(uint32_t slot) const override {
    catch_up();
    return tree_.get(slot);
  }
  uint64_t size() const override { return size_; }
  double mass() const override {
    catch_up();
    return tree_.total();
  }

 private:
  static constexpr float kAbsent = -1;  // in place of a priority
  static constexpr size_t kMostPutOff = 256;

  // Items come and go one by one, but many in a row and side by side. What they share of the tree
  // is then summed once for all of them, before anybody looks.
  void put_off(uint32_t slot, float priority) {
    if (later_count_ == kMostPutOff) catch_up();
    later_slots_[later_count_] = slot;
    later_priorities_[later_count_++] = priority;
  }
  void catch_up() const {
    if (later_count_ == 0) return;
    const size_t n = std::exchange(later_count_, 0);
    const auto masses = masses_of({later_priorities_.data(), n});
    for (size_t i = 0; i < n; ++i) masses[i] = later_priorities_[i] == kAbsent ? 0 : masses[i];
    tree_.set({later_slots_.data(), n}, masses);
  }

  // Valid until the next call.
  std::span<float> masses_of(std::span<const float> priorities) const {
    masses_.resize(priorities.size());
    kernel_.power(priorities.data(), masses_.data(), priorities.size(), floor_, exponent_);
    return masses_;
  }

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
  // What was put off is in order: of a leaf that is named twice the later mass holds.
  mutable SumTree tree_;
  mutable std::array<uint32_t, kMostPutOff> later_slots_;
  mutable std::array<float, kMostPutOff> later_priorities_;
  mutable size_t later_count_ = 0;
  uint64_t size_ = 0;
  mutable std::vector<float> masses_;  // scratch
  std::vector<double> targets_;        // scratch
  std::vector<uint64_t> words_;        // scratch
};

}  // namespace

std::unique_ptr<Sampler> make_prioritized(const SamplerSpec& spec, uint32_t leaves) {
  refuse_options(spec);
  return std::make_unique<Prioritized>(spec, leaves, chosen_kernel());
}

}  // namespace drlnet
