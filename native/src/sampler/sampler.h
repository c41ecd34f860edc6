// Draws slots of a table. A sampler sees leaves (slots) and masses, never rows. Threading: one
// thread. A new sampler is one file and one line in samplers.def.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "spec/table_spec.h"

namespace drlnet {

class Sampler {
 public:
  virtual ~Sampler() = default;

  // The item at `slot` becomes drawable / can no longer be drawn / items change priority.
  // Priorities are finite and >= 0 (the caller checked); insert is called on an absent leaf, the
  // others on present ones. Of a slot that is named twice in an update the later priority holds.
  virtual void insert(uint32_t slot, float priority) = 0;
  // Whether what is drawn depends on the order of insertions.
  virtual bool heeds_order() const { return false; }
  virtual void remove(uint32_t slot) = 0;
  virtual void update(std::span<const uint32_t> slots, std::span<const float> priorities) = 0;

  // The item at `from`, present, is at `to` from now on, absent before: nothing else changes, its
  // turn neither.
  virtual void move(uint32_t from, uint32_t to) = 0;

  // Fills slots and the probability with which each was really drawn. Any run of them is as good a
  // sample as any other (but of fifo's, whose order is its meaning). Only called with size() > 0.
  // O(slots.size() * log(leaves)) for trees.
  virtual void draw(std::span<uint32_t> slots, std::span<float> probabilities, Random& random) = 0;

  // The same among the leaves from `first` on, round the end of them all, up to before `end`, and
  // the sum of their stored priorities, with which draw_among() is called only where it is > 0.
  // None: this sampler draws from all items alone.
  virtual std::optional<double> mass_among(uint32_t /*first*/, uint32_t /*end*/) const {
    return std::nullopt;
  }
  virtual void draw_among(uint32_t /*first*/, double /*mass*/, std::span<uint32_t> slots,
                          std::span<float> probabilities, Random& random) {
    draw(slots, probabilities, random);
  }

  // Items that updates since the last call have shown to be useless: the caller may remove them.
  // Valid until the next call.
  virtual std::span<const uint32_t> take_useless() { return {}; }

  // No request waits now: a part, of one batch at most, of what the last update left undone and of
  // what the next draw with `random` comes to is done before it is asked for. No answer changes by
  // it. Whether there is more to do.
  virtual bool work_ahead(const Random& /*random*/) { return false; }
  // Each slot has a row of `stride` bytes there, which the caller of draw() reads next.
  virtual void fetch_along(const std::byte* /*rows*/, size_t /*stride*/) {}

  // The stored priority of a present leaf, which its chance is meant to follow; 1 where there are
  // none.
  virtual float stored(uint32_t slot) const = 0;
  virtual uint64_t size() const = 0;  // drawable items
  virtual double mass() const = 0;    // sum of stored priorities (size() where there are none)
};

struct SamplerKind {
  // leaves: number of slots. Throws Error(config) on options it does not know.
  std::unique_ptr<Sampler> (*make)(const SamplerSpec& spec, uint32_t leaves);
  std::string_view name;
  std::array<std::string_view, 4> synonyms{};  // the rest is empty
};

std::span<const SamplerKind> sampler_kinds();
// Throws Error(config) with near names for an unknown one.
std::unique_ptr<Sampler> make_sampler(const SamplerSpec& spec, uint32_t leaves);

std::string shown(double value);  // of an option, in an error
// For samplers without options of their own. Throws Error(config) naming the first one given.
void refuse_options(const SamplerSpec& spec);

}  // namespace drlnet
