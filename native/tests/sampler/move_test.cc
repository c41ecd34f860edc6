// Items that move to other slots, as a queue's do.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "sampler/sampler.h"

namespace drlnet::test {

TEST_CASE("an item that moves to another slot keeps what it is, and its turn") {
  constexpr uint32_t kLeaves = 64, kItems = 40;
  for (const SamplerKind& kind : sampler_kinds()) {
    INFO(kind.name);
    TableSpec table;
    table.sampler.name = kind.name;
    const auto still = make_sampler(table.sampler, kLeaves);
    const auto moved = make_sampler(table.sampler, kLeaves);
    std::map<uint32_t, uint32_t> now;  // where each is
    for (uint32_t i = 0; i < kItems; ++i) {
      const uint32_t slot = i * 7 % kLeaves;
      for (Sampler* one : {still.get(), moved.get()}) {
        one->insert(slot, static_cast<float>(i % 5) + 0.25f);
      }
      now[slot] = slot;
    }
    std::vector<uint32_t> slots(2 * kItems), as_before(slots.size());
    std::vector<float> probabilities(slots.size());
    // What a sampler has made ready must not outlive a move.
    Random random(1), other(1);
    moved->draw(slots, probabilities, random);
    still->draw(as_before, probabilities, other);
    while (moved->work_ahead(random)) continue;

    uint32_t gap = 0;
    while (now.contains(gap)) ++gap;
    for (auto& [slot, at] : now) {
      moved->move(at, gap);
      std::swap(at, gap);
      CHECK(moved->stored(now[slot]) == still->stored(slot));
    }
    CHECK(moved->size() == still->size());
    CHECK(moved->mass() == doctest::Approx(still->mass()).epsilon(1e-6));
    for (int batch = 0; batch < 20; ++batch) {
      moved->draw(slots, probabilities, random);
      CHECK(std::ranges::find(slots, gap) == slots.end());
      still->draw(as_before, probabilities, other);
      if (kind.name != "fifo") continue;
      for (size_t i = 0; i < slots.size(); ++i) CHECK(slots[i] == now[as_before[i]]);
    }
    for (const auto& [_, at] : now) moved->remove(at);
    CHECK(moved->size() == 0);
  }
}

}  // namespace drlnet::test
