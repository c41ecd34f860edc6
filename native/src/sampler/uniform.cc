// Every item alike, drawn independently: a dense array of the present slots.
#include <algorithm>

#include "base/mapping.h"
#include "sampler/sampler.h"

namespace drlnet {
namespace {

class Uniform final : public Sampler {
 public:
  explicit Uniform(uint32_t leaves)
      : memory_(2 * sizeof(uint32_t) * leaves),
        present_(reinterpret_cast<uint32_t*>(memory_.data())),
        position_(present_ + leaves) {}

  void insert(uint32_t slot, float) override {
    position_[slot] = size_;
    present_[size_++] = slot;
  }
  void remove(uint32_t slot) override {
    const uint32_t moved = present_[--size_];
    present_[position_[slot]] = moved;
    position_[moved] = position_[slot];
  }
  void move(uint32_t from, uint32_t to) override {
    position_[to] = position_[from];
    present_[position_[to]] = to;
  }
  void update(std::span<const uint32_t>, std::span<const float>) override {}

  void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) override {
    for (uint32_t& slot : slots) slot = present_[random.below(size_)];
    std::fill(probabilities.begin(), probabilities.end(), 1.0f / static_cast<float>(size_));
  }

  float stored(uint32_t) const override { return 1; }
  uint64_t size() const override { return size_; }
  double mass() const override { return size_; }

 private:
  Mapping memory_;
  uint32_t* present_;   // the first size_ are the present slots, in no order
  uint32_t* position_;  // of a present slot in present_
  uint32_t size_ = 0;
};

}  // namespace

std::unique_ptr<Sampler> make_uniform(const SamplerSpec& spec, uint32_t leaves) {
  refuse_options(spec);
  return std::make_unique<Uniform>(leaves);
}

}  // namespace drlnet
