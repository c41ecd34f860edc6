// How much memory a process may still take.
#pragma once

#include <cstdint>

namespace drlnet {

// What the machine has available, within the limit of the process's control group.
uint64_t memory_left_bytes();

}  // namespace drlnet
