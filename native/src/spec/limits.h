// The limits of a server: whatever its clients do, it takes no more than this. What goes beyond is
// refused with an error, or the oldest or largest of its kind makes room; both are counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace drlnet {

enum class Limit : uint8_t {
#define DRLNET_LIMIT(name, standard, lowest, highest, of) name,
#include "spec/limits.def"
#undef DRLNET_LIMIT
};

struct Limits {
#define DRLNET_LIMIT(name, standard, lowest, highest, of) uint64_t name = standard;
#include "spec/limits.def"
#undef DRLNET_LIMIT
};

// How often each refused something.
class Refusals {
 public:
  void count(Limit limit) { ++counts_[static_cast<size_t>(limit)]; }
  // By name.
  template <typename Visit>
  void each(Visit visit) const {
    size_t i = 0;
#define DRLNET_LIMIT(name, standard, lowest, highest, of) visit(#name, counts_[i++]);
#include "spec/limits.def"
#undef DRLNET_LIMIT
  }

 private:
  static constexpr size_t kLimits = 0
#define DRLNET_LIMIT(name, standard, lowest, highest, of) +1
#include "spec/limits.def"
#undef DRLNET_LIMIT
      ;
  std::array<uint64_t, kLimits> counts_{};
};

// The default limits but for those that are named. Throws Error(config) for a name that is none of
// them, or a value that it cannot have.
Limits limits_from(const std::map<std::string, uint64_t>& named);

}  // namespace drlnet
