// How far a mistyped name is from one that exists.
#pragma once

#include <cstddef>
#include <string_view>

namespace drlnet {

// Levenshtein's: letters inserted, removed or replaced. O(|a| |b|).
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace drlnet
