// Items in the order of their insertion, each once; then again from the oldest that is left. What
// is inserted after all have been drawn comes first. The probability that is reported is 1 / size.
#include <algorithm>
#include <limits>

#include "base/mapping.h"
#include "sampler/sampler.h"

namespace drlnet {
namespace {

constexpr uint32_t kEnd = std::numeric_limits<uint32_t>::max();

class Fifo final : public Sampler {
 public:
  explicit Fifo(uint32_t leaves)
      : memory_(sizeof(Links) * leaves), links_(reinterpret_cast<Links*>(memory_.data())) {}

  void insert(uint32_t slot, float) override {
    links_[slot] = {newest_, kEnd};
    (newest_ == kEnd ? oldest_ : links_[newest_].after) = slot;
    newest_ = slot;
    if (next_ == kEnd) next_ = slot;
    ++size_;
  }
  bool heeds_order() const override { return true; }
  void remove(uint32_t slot) override {
    const auto [before, after] = links_[slot];
    (before == kEnd ? oldest_ : links_[before].after) = after;
    (after == kEnd ? newest_ : links_[after].before) = before;
    if (next_ == slot) next_ = after;
    --size_;
  }
  void move(uint32_t from, uint32_t to) override {
    const Links links = links_[to] = links_[from];
    (links.before == kEnd ? oldest_ : links_[links.before].after) = to;
    (links.after == kEnd ? newest_ : links_[links.after].before) = to;
    if (next_ == from) next_ = to;
  }
  void update(std::span<const uint32_t>, std::span<const float>) override {}

  void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random&) override {
    for (uint32_t& slot : slots) {
      slot = next_ == kEnd ? oldest_ : next_;
      next_ = links_[slot].after;
    }
    std::fill(probabilities.begin(), probabilities.end(), 1.0f / static_cast<float>(size_));
  }

  float stored(uint32_t) const override { return 1; }
  uint64_t size() const override { return size_; }
  double mass() const override { return static_cast<double>(size_); }

 private:
  struct Links {
    uint32_t before, after;
  };
  Mapping memory_;
  Links* links_;  // of present slots
  uint32_t oldest_ = kEnd, newest_ = kEnd;
  uint32_t next_ = kEnd;  // to be drawn; kEnd: all have been
  uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<Sampler> make_fifo(const SamplerSpec& spec, uint32_t leaves) {
  refuse_options(spec);
  return std::make_unique<Fifo>(leaves);
}

}  // namespace drlnet
