// Curriculum sampling, after asynchronous curriculum experience replay (Hu et al., 2023, arXiv
// 2207.01251): what is new comes first, what was drawn often comes seldom, what is useless goes.
// The ideas are the paper's, the formulas are ours. With e_i = max(p_i, floor)^alpha of an item,
// n_i how often it was drawn, N items, and a batch of k:
//
//   stored    m_i = e_i (1 + n_i)^-coverage, M their sum
//   fresh     F: items that no batch has had, 65,536 of them at most
//   share     f = min(fresh, |F| / k): at most one place for each
//   chance    P(i) = (1 - f) m_i / M + [i in F] f / |F|
//
// which is what a draw reports; a batch counts from the next one on. Place j is for a fresh item
// where floor(j f + u) grows: a share f, rounded, of any run of places. These items stand at equal
// distances in F, from a random one on; the other places are what "prioritized" draws by m_i.
//
// Useless is an item that was drawn and whose m_i, at an update of its p_i, has fallen under
// `useless` x M / N. The paper's pool puts it out first. Our rows leave in order, since items share
// them, so the item retires: it leaves the draw at once, its row in its turn.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapping.h"
#include "sampler/sampler.h"

namespace drlnet {

std::unique_ptr<Sampler> make_prioritized(const SamplerSpec& spec, uint32_t leaves);

namespace {

struct CurriculumOptions {
  double fresh = 0.25, coverage = 0.5, useless = 0;
};

CurriculumOptions curriculum_options(const SamplerSpec& spec) {
  CurriculumOptions options;
  const std::string sampler = "sampler '" + spec.name + "'";
  const auto take = [&](const std::string& name, double value, double& option, double most) {
    if (!(value >= 0 && value <= most)) {
      throw Error(Status::config, sampler + ": " + name + " = " + shown(value) + " cannot be",
                  "give " + name + " a number from 0 to " + shown(most));
    }
    option = value;
  };
  for (const auto& [name, value] : spec.options) {
    if (name == "fresh") {
      take(name, value, options.fresh, 0.95);
    } else if (name == "coverage") {
      take(name, value, options.coverage, 4);
    } else if (name == "useless") {
      take(name, value, options.useless, 0.95);
    } else {
      throw Error(Status::config, sampler + " has no option '" + name + "'",
                  "its options are coverage, fresh and useless");
    }
  }
  return options;
}

// A tree of masses as they are.
SamplerSpec of_masses() {
  return {.priority_exponent = 1,
          .priority_floor = static_cast<double>(std::numeric_limits<float>::min()),
          .options = {}};
}

class Curriculum final : public Sampler {
 public:
  Curriculum(const SamplerSpec& spec, uint32_t leaves)
      : options_(curriculum_options(spec)),
        exponent_(spec.priority_exponent),
        floor_(std::max(spec.priority_floor, of_masses().priority_floor)),
        tree_(make_prioritized(of_masses(), leaves)),
        memory_(sizeof(Item) * leaves),
        items_(reinterpret_cast<Item*>(memory_.data())),
        pool_most_(std::min(leaves, kMostFresh)) {
    pool_.reserve(pool_most_);
  }

  void insert(uint32_t slot, float priority) override {
    items_[slot] = {error_of(priority), 0, kDrawn};
    enter_pool(slot);
    tree_->insert(slot, mass_of(items_[slot]));
  }
  bool heeds_order() const override { return true; }
  void remove(uint32_t slot) override {
    leave_pool(slot);
    tree_->remove(slot);
  }
  void move(uint32_t from, uint32_t to) override {
    items_[to] = items_[from];
    items_[from].place = kDrawn;
    if (items_[to].place != kDrawn) pool_[items_[to].place] = to;
    tree_->move(from, to);
  }
  void update(std::span<const uint32_t> slots, std::span<const float> priorities) override {
    for (size_t i = 0; i < slots.size(); ++i) items_[slots[i]].error = error_of(priorities[i]);
    update_masses(slots);
    if (options_.useless == 0) return;
    const double least = options_.useless * mass() / static_cast<double>(size());
    for (const uint32_t slot : slots) {
      if (items_[slot].draws > 0 && mass_of(items_[slot]) < least) useless_.push_back(slot);
    }
  }
  std::span<const uint32_t> take_useless() override {
    taken_.swap(useless_);
    useless_.clear();
    return taken_;
  }

  void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) override {
    const size_t n = slots.size();
    const auto fresh = static_cast<double>(pool_.size());
    const double share = std::min(options_.fresh, fresh / static_cast<double>(n));
    const double phase = random.uniform();
    const auto fresh_before = [&](size_t place) {
      return static_cast<size_t>(static_cast<double>(place) * share + phase);
    };
    const size_t taken = fresh_before(n);
    others_.resize(n - taken);
    other_probabilities_.resize(n - taken);
    if (!others_.empty()) tree_->draw(others_, other_probabilities_, random);
    const double first = random.uniform();
    for (size_t place = 0; place < n; ++place) {
      const size_t before = fresh_before(place);
      if (fresh_before(place + 1) == before) {
        slots[place] = others_[place - before];
      } else {
        const double turn = first + static_cast<double>(before) / static_cast<double>(taken);
        slots[place] = pool_[static_cast<size_t>(turn * fresh) % pool_.size()];
      }
    }
    const double scale = (1 - share) / mass(), extra = fresh > 0 ? share / fresh : 0;
    for (size_t i = 0; i < n; ++i) {
      const bool is_fresh = items_[slots[i]].place != kDrawn;
      probabilities[i] = static_cast<float>(static_cast<double>(tree_->stored(slots[i])) * scale +
                                            (is_fresh ? extra : 0));
    }
    for (const uint32_t slot : slots) {
      leave_pool(slot);
      items_[slot].draws += items_[slot].draws < std::numeric_limits<uint32_t>::max();
    }
    update_masses(slots);
  }
  void fetch_along(const std::byte* rows, size_t stride) override {
    tree_->fetch_along(rows, stride);
  }

  float stored(uint32_t slot) const override { return tree_->stored(slot); }
  uint64_t size() const override { return tree_->size(); }
  double mass() const override { return tree_->mass(); }

 private:
  static constexpr uint32_t kMostFresh = 65'536;
  static constexpr uint32_t kDrawn = std::numeric_limits<uint32_t>::max();
  struct Item {
    float error;
    uint32_t draws;
    uint32_t place;  // in the pool; kDrawn: not there
  };

  float error_of(float priority) const {
    const double error = std::pow(std::max<double>(priority, floor_), exponent_);
    return static_cast<float>(std::clamp<double>(error, std::numeric_limits<float>::min(),
                                                 std::numeric_limits<float>::max()));
  }
  float mass_of(const Item& item) const {
    if (item.draws == 0) return item.error;
    const double seldom = std::pow(1.0 + item.draws, -options_.coverage);
    return static_cast<float>(static_cast<double>(item.error) * seldom);
  }
  void update_masses(std::span<const uint32_t> slots) {
    masses_.resize(slots.size());
    for (size_t i = 0; i < slots.size(); ++i) masses_[i] = mass_of(items_[slots[i]]);
    tree_->update(slots, masses_);
  }

  void enter_pool(uint32_t slot) {
    if (pool_.size() == pool_most_) leave_pool(pool_[turn_++ % pool_most_]);
    items_[slot].place = static_cast<uint32_t>(pool_.size());
    pool_.push_back(slot);
  }
  void leave_pool(uint32_t slot) {
    const uint32_t place = std::exchange(items_[slot].place, kDrawn);
    if (place == kDrawn) return;
    pool_[place] = pool_.back();
    pool_.pop_back();
    if (place < pool_.size()) items_[pool_[place]].place = place;
  }

  const CurriculumOptions options_;
  const double exponent_, floor_;
  std::unique_ptr<Sampler> tree_;  // of all items, by what is stored
  Mapping memory_;
  Item* items_;  // of present slots
  uint32_t pool_most_;
  std::vector<uint32_t> pool_;  // fresh slots
  size_t turn_ = 0;             // whose place the next one takes in a full pool
  std::vector<uint32_t> useless_, taken_;
  std::vector<float> masses_, other_probabilities_;  // scratch
  std::vector<uint32_t> others_;                     // scratch
};

}  // namespace

std::unique_ptr<Sampler> make_curriculum(const SamplerSpec& spec, uint32_t leaves) {
  return std::make_unique<Curriculum>(spec, leaves);
}

}  // namespace drlnet
