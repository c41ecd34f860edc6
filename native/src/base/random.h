// A small seeded generator: xoshiro256++ (Blackman and Vigna, 2019), seeded through splitmix64.
// Not for secrets: see random_secret() in base/world.h.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace drlnet {

// SplitMix64 (Steele, Lea and Flood, 2014): splitmix64(key + i * kSplitMixStep), i = 1, 2, ..., are
// random words that do not depend on one another, so they can be computed side by side.
constexpr uint64_t kSplitMixStep = 0x9E3779B97F4A7C15;
[[gnu::always_inline]] constexpr inline uint64_t splitmix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (auto& word : state_) word = splitmix64(seed += kSplitMixStep);
  }

  // Goes on where another one stood.
  explicit Random(const std::array<uint64_t, 4>& state) : state_(state) {}
  const std::array<uint64_t, 4>& state() const { return state_; }

  uint64_t bits() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

  // Uniform in [0, bound), bound > 0, without bias (Lemire 2019).
  uint64_t below(uint64_t bound) {
    auto product = static_cast<unsigned __int128>(bits()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = (0 - bound) % bound;
      while (static_cast<uint64_t>(product) < threshold) {
        product = static_cast<unsigned __int128>(bits()) * bound;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

  bool operator==(const Random&) const = default;

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace drlnet
