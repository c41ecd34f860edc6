// How long a test waits for what must come.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>

#include "base/world.h"

namespace drlnet::test {

// Far more than it takes, under the sanitizers and on a busy machine as well.
constexpr uint64_t kPatienceNs = 60'000'000'000;

// Takes steps until the condition holds.
template <typename Condition, typename Step>
void run_until(Condition condition, Step step) {
  const uint64_t deadline_ns = now_ns() + kPatienceNs;
  while (!condition()) {
    step();
    REQUIRE(now_ns() < deadline_ns);
  }
}

}  // namespace drlnet::test
