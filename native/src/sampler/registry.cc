#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>

#include "base/edit_distance.h"
#include "base/error.h"
#include "sampler/sampler.h"

namespace drlnet {

#define DRLNET_SAMPLER(make, ...) \
  std::unique_ptr<Sampler> make(const SamplerSpec& spec, uint32_t leaves);
#include "sampler/samplers.def"
#undef DRLNET_SAMPLER

namespace {

constexpr SamplerKind kKinds[] = {
#define DRLNET_SAMPLER(make, ...) {make, __VA_ARGS__},
#include "sampler/samplers.def"
#undef DRLNET_SAMPLER
};

bool is_meant(const SamplerKind& kind, std::string_view name) {
  if (edit_distance(name, kind.name) <= 1 + kind.name.size() / 3) return true;
  return !name.empty() && std::ranges::find(kind.synonyms, name) != kind.synonyms.end();
}

}  // namespace

std::span<const SamplerKind> sampler_kinds() { return kKinds; }

std::unique_ptr<Sampler> make_sampler(const SamplerSpec& spec, uint32_t leaves) {
  for (const SamplerKind& kind : kKinds) {
    if (kind.name == spec.name) return kind.make(spec, leaves);
  }
  std::string lower, near, all;
  for (const char letter : spec.name) {
    lower += letter == '_' ? '-' : static_cast<char>(std::tolower(static_cast<uint8_t>(letter)));
  }
  for (const SamplerKind& kind : kKinds) {
    (all += all.empty() ? "" : ", ") += kind.name;
    if (!is_meant(kind, lower)) continue;
    ((near += near.empty() ? "did you mean '" : "' or '") += kind.name);
  }
  throw Error(Status::config, "no sampler is named '" + spec.name + "'",
              (near.empty() ? "choose" : near + "'? There are") + (" " + all));
}

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

void refuse_options(const SamplerSpec& spec) {
  if (spec.options.empty()) return;
  throw Error(Status::config,
              "sampler '" + spec.name + "' has no option '" + spec.options.begin()->first + "'",
              "leave it out");
}

}  // namespace drlnet
