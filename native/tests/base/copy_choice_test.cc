// The choice between two ways of copying, by timings that are given here.
#include "base/copy_choice.h"

#include <doctest/doctest.h>

#include "base/random.h"

namespace drlnet::test {
namespace {

constexpr size_t kTurnBytes = 57'344;

// What a byte takes either way, in nanoseconds, with noise of a tenth and turns that are
// interrupted; for a while after a change of way it takes what the way before did.
struct Machine {
  double through_cache, streamed;
  CopyChoice choice = {};
  Random random = Random(7);
  size_t streamed_bytes = 0, bytes = 0, since_change = 0;

  void copy(size_t turns, size_t turn_bytes = kTurnBytes) {
    for (size_t i = 0; i < turns; ++i) {
      const bool now = choice.streamed();
      const bool settled = since_change >= 2'300'000;
      double ns = static_cast<double>(turn_bytes) * (now == settled ? streamed : through_cache);
      ns *= 0.95 + 0.1 * random.uniform();
      if (random.below(20) == 0) ns += 1e6;
      bytes += turn_bytes;
      if (now) streamed_bytes += turn_bytes;
      choice.copied(turn_bytes, static_cast<uint64_t>(ns));
      since_change = choice.streamed() == now ? since_change + turn_bytes : 0;
    }
  }
  double streamed_share(size_t turns) {
    bytes = streamed_bytes = 0;
    copy(turns);
    return static_cast<double>(streamed_bytes) / static_cast<double>(bytes);
  }
};

constexpr size_t turns_of(double bytes) { return static_cast<size_t>(bytes / kTurnBytes) + 1; }

}  // namespace

TEST_CASE("the faster way of copying is found within one long reply, and trials are few") {
  Machine near{0.10, 0.13}, far{0.25, 0.13};
  for (Machine* machine : {&near, &far}) machine->copy(turns_of(18e6));
  CHECK_FALSE(near.choice.streamed());
  CHECK(far.choice.streamed());
  CHECK(near.streamed_share(turns_of(40e9)) < 0.01);
  CHECK(far.streamed_share(turns_of(40e9)) > 0.99);
}

TEST_CASE("ways of copying that are about as fast are tried more often, but not much") {
  Machine even{0.10, 0.11};
  even.copy(turns_of(18e6));
  const double share = even.streamed_share(turns_of(40e9));
  CHECK(share > 0.01);
  CHECK(share < 0.03);
}

TEST_CASE("the choice of a way of copying follows a machine that changes") {
  Machine machine{0.10, 0.13};
  machine.copy(turns_of(4e9));
  for (int i = 0; i < 10; ++i) {
    machine.through_cache = 0.25;  // seen at once: what goes through the cache takes longer
    machine.copy(turns_of(0.4e9));
    CHECK(machine.streamed_share(turns_of(1e9)) > 0.97);
    machine.through_cache = 0.10;  // seen by a trial
    machine.copy(turns_of(1e9));
    CHECK(machine.streamed_share(turns_of(1e9)) < 0.03);
  }
}

TEST_CASE("a way of copying that is hardly faster does not replace the other") {
  Machine machine{0.10, 0.098};
  CHECK(machine.streamed_share(turns_of(4e9)) < 0.03);
}

TEST_CASE("a way of copying that was slow for a moment is not given up") {
  Machine machine{0.10, 0.13};
  machine.copy(turns_of(50e6));
  machine.bytes = machine.streamed_bytes = 0;
  for (int i = 0; i < 500; ++i) {
    machine.through_cache = 0.15;
    machine.copy(turns_of(3e6));
    machine.through_cache = 0.10;
    machine.copy(turns_of(45e6));
  }
  CHECK(machine.streamed_bytes < machine.bytes / 30);
}

TEST_CASE("short turns say nothing about a way of copying") {
  Machine machine{0.25, 0.13};
  machine.copy(100'000, CopyChoice::kLeastBytes - 1);
  CHECK(machine.streamed_bytes == 0);
}

}  // namespace drlnet::test
