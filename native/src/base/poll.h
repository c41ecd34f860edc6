// How a loop waits for frames: busy never sleeps, block never spins, adaptive spins for 20 us
// first.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace drlnet {

enum class Poll : uint8_t { adaptive = 0, busy = 1, block = 2 };
constexpr uint64_t kSpinNs = 20'000;

inline Poll poll_of(const std::string& name) {
  if (name == "adaptive") return Poll::adaptive;
  if (name == "busy") return Poll::busy;
  if (name == "block") return Poll::block;
  throw Error(Status::config, "unknown way to poll: '" + name + "'", "use adaptive, busy or block");
}

}  // namespace drlnet
