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
  void move(uint32_t from, uint32_t to) override {
    catch_up();
    drawn_ahead_ = false;
    const std::array slots{from, to};
    tree_.set(slots, std::array{0.0f, tree_.get(from)});
  }

  void update(std::span<const uint32_t> slots, std::span<const float> priorities) override {
    if (slots.size() > later_slots_.size() - later_count_) catch_up();
    updated_since_draw_ |= !slots.empty();
    if (slots.size() > later_slots_.size()) {
      drawn_ahead_ = false;
      return tree_.set(slots, masses_of(priorities));
    }
    std::ranges::copy(slots, later_slots_.begin() + later_count_);
    std::ranges::copy(priorities, later_priorities_.begin() + later_count_);
    later_count_ += slots.size();
    updated_ |= !slots.empty();
  }
  bool work_ahead(const Random& random) override {
    if (updated_) {
      catch_up();
    } else {
      // In one part: a look for frames between the two costs more than the plan itself.
      if (plan_.before != random) plan(plan_.places.size(), random);
      if (may_draw_ahead()) draw_ahead();
    }
    return plan_.before != random || may_draw_ahead();
  }
  void fetch_along(const std::byte* rows, size_t stride) override {
    tree_.fetch_along(rows, stride);
  }

  void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) override {
    catch_up();
    if (plan_.places.size() != slots.size() || plan_.before != random) plan(slots.size(), random);
    if (drawn_ahead_) {
      std::ranges::copy(ahead_slots_, slots.begin());
      std::ranges::copy(ahead_probabilities_, probabilities.begin());
    } else {
      draw_planned(slots, probabilities);
    }
    random = plan_.after;
    update_follows_ = std::exchange(updated_since_draw_, false);
  }

  std::optional<double> mass_among(uint32_t first, uint32_t end) const override {
    catch_up();
    const double total = tree_.total(), mass = tree_.before(end) - tree_.before(first);
    const double among = first < end ? mass : mass + total;
    return among > total * kRounding ? among : 0;
  }
  void draw_among(uint32_t first, double mass, std::span<uint32_t> slots,
                  std::span<float> probabilities, Random& random) override {
    catch_up();
    const size_t n = slots.size();
    targets_.resize(n);
    found_.resize(n);
    kernel_.stratify(random.bits(), mass, targets_.data(), n);
    // Counted from the first, they may go round the end.
    const double below = tree_.before(first), total = tree_.total();
    size_t round = 0;
    while (round < n && targets_[round] + below < total) targets_[round++] += below;
    for (size_t i = round; i < n; ++i) targets_[i] = std::max(targets_[i] + below - total, 0.0);
    const std::span targets(targets_);
    const std::span found(found_);
    if (round > 0) tree_.find(targets.first(round), found.first(round));
    if (round < n) tree_.find(targets.subspan(round), found.subspan(round));
    if (order_.size() != n) arrange(n);
    const size_t start = random.below(n);
    for (size_t i = 0; i < n; ++i) {
      slots[i] = found_[order_[(start + i) % n]];
      probabilities[i] = static_cast<float>(static_cast<double>(tree_.get(slots[i])) / mass);
    }
    update_follows_ = std::exchange(updated_since_draw_, false);
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
  static constexpr float kAbsent = -1;        // in place of a priority
  static constexpr size_t kMostPutOff = 256;  // one by one
  static constexpr size_t kMostUpdated = 1024;
  static constexpr size_t kMostAhead = 1024;
  // The share of the total by which two sums of the same masses may differ, and some: what lies
  // under it is left of none.
  static constexpr double kRounding = 0x1p-44;

  // Items come and go one by one, but many in a row and side by side. What they share of the tree
  // is then summed once for all of them, before anybody looks. An update is put off as a whole:
  // its sender need not wait for the tree.
  void put_off(uint32_t slot, float priority) {
    if (later_count_ >= kMostPutOff) catch_up();
    later_slots_[later_count_] = slot;
    later_priorities_[later_count_++] = priority;
  }
  void catch_up() const {
    if (later_count_ == 0) return;
    const size_t n = std::exchange(later_count_, 0);
    updated_ = drawn_ahead_ = false;
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

  // The random part of a batch, which needs to know nothing of the tree.
  struct Plan {
    Random before{0}, after{0};  // the generator
    std::vector<double> places;  // one in each stratum, ascending, counted in strata
    size_t start = 0;            // in order_, of the batch
  };
  void plan(size_t n, Random random) {
    drawn_ahead_ = false;
    plan_.before = random;
    plan_.places.resize(n);
    kernel_.stratify(random.bits(), static_cast<double>(n), plan_.places.data(), n);
    plan_.start = n > 0 ? random.below(n) : 0;
    if (order_.size() != n) arrange(n);
    plan_.after = random;
  }

  void draw_planned(std::span<uint32_t> slots, std::span<float> probabilities) {
    const size_t n = slots.size();
    const double total = tree_.total();
    DRLNET_ASSERT(total > 0);
    const double part = total / static_cast<double>(n);
    targets_.resize(n);
    found_.resize(n);
    for (size_t i = 0; i < n; ++i) targets_[i] = plan_.places[i] * part;
    tree_.find(targets_, found_);
    const double scale = 1 / total;
    for (size_t i = 0; i < n; ++i) {
      const size_t place = plan_.start + i;
      slots[i] = found_[order_[place < n ? place : place - n]];
      probabilities[i] = static_cast<float>(static_cast<double>(tree_.get(slots[i])) * scale);
    }
  }

  void draw_ahead() {
    ahead_slots_.resize(plan_.places.size());
    ahead_probabilities_.resize(plan_.places.size());
    draw_planned(ahead_slots_, ahead_probabilities_);
    drawn_ahead_ = true;
  }

  // Where updates follow upon batches, one that is drawn before its update comes is in vain. A
  // request that comes meanwhile waits for it, so a large one is left for later.
  bool may_draw_ahead() const {
    const size_t n = plan_.places.size();
    return !drawn_ahead_ && later_count_ == 0 && (updated_since_draw_ || !update_follows_) &&
           n > 0 && n <= kMostAhead && tree_.total() > 0;
  }

  // Stratified order is slot order, but any run of a batch is to stand for all of it. So a stratum
  // is followed by the one a golden section of them further round: by steps of a Fibonacci number
  // modulo the next, over what is not below n. A run of them leaves gaps of at most three lengths,
  // Fibonacci numbers next to one another, the longest no more than three times the shortest (the
  // three-gap theorem: Sos 1958, Swierczkowski 1959). A batch begins anywhere in this order, so
  // each of its places by itself follows the masses.
  void arrange(size_t n) {
    size_t longer = 1, shorter = 1;
    while (longer + shorter < n) shorter = std::exchange(longer, longer + shorter);
    order_.resize(n);
    size_t stratum = 0;
    for (uint32_t& place : order_) {
      place = static_cast<uint32_t>(stratum);
      stratum = stratum < shorter ? stratum + longer : stratum - shorter;
      stratum -= stratum < n ? 0 : shorter;  // once is enough: n > longer
    }
  }

  const Kernel& kernel_;
  float exponent_, floor_;
  // What was put off is in order: of a leaf that is named twice the later mass holds.
  mutable SumTree tree_;
  mutable std::array<uint32_t, kMostPutOff + kMostUpdated> later_slots_;
  mutable std::array<float, kMostPutOff + kMostUpdated> later_priorities_;
  mutable size_t later_count_ = 0;
  mutable bool updated_ = false;  // some of it, by an update
  uint64_t size_ = 0;
  mutable std::vector<float> masses_;  // scratch
  Plan plan_;                          // of the next batch, or of the last one
  std::vector<uint32_t> order_;        // of its strata, but for where it starts
  // The next batch, while the plan is for it and the tree has not changed since.
  mutable bool drawn_ahead_ = false;
  std::vector<uint32_t> ahead_slots_;
  std::vector<float> ahead_probabilities_;
  bool updated_since_draw_ = false;
  bool update_follows_ = false;  // behind the draw before, one did
  std::vector<double> targets_;  // scratch
  std::vector<uint32_t> found_;  // scratch
};

}  // namespace

std::unique_ptr<Sampler> make_prioritized(const SamplerSpec& spec, uint32_t leaves) {
  refuse_options(spec);
  return std::make_unique<Prioritized>(spec, leaves, chosen_kernel());
}

}  // namespace drlnet
