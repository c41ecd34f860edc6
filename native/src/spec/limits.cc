#include "spec/limits.h"

#include "base/error.h"

namespace drlnet {

Limits limits_from(const std::map<std::string, uint64_t>& named) {
  Limits limits;
  std::string names;
  size_t known = 0;
  const auto take = [&](const char* name, uint64_t& value, uint64_t lowest, uint64_t highest) {
    names += (names.empty() ? "" : ", ") + std::string(name);
    const auto wanted = named.find(name);
    if (wanted == named.end()) return;
    ++known;
    if (wanted->second < lowest || wanted->second > highest) {
      throw Error(Status::config,
                  "server.limits." + wanted->first + " is " + std::to_string(wanted->second),
                  "choose " + std::to_string(lowest) + " to " + std::to_string(highest));
    }
    value = wanted->second;
  };
#define DRLNET_LIMIT(name, standard, lowest, highest, of) take(#name, limits.name, lowest, highest);
#include "spec/limits.def"
#undef DRLNET_LIMIT
  if (known == named.size()) return limits;
  for (const auto& [name, value] : named) {
    if ((", " + names + ",").find(", " + name + ",") != std::string::npos) continue;
    throw Error(Status::config, "the limit server.limits." + name + " is unknown",
                "choose among " + names);
  }
  return limits;
}

}  // namespace drlnet
