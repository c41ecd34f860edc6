// Samplers by their names, and by what users type for them.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "sampler/sampler.h"

namespace drlnet::test {

TEST_CASE("unknown samplers and options are refused with a way out") {
  // Misspelt, or called what others call it; nothing comes near the last one.
  const std::pair<const char*, const char*> wrong[] = {
      {"prioritised", "did you mean 'prioritized'? "}, {"PER", "did you mean 'prioritized'? "},
      {"sum_tree", "did you mean 'prioritized'? "},    {"proportional", "'prioritized'? "},
      {"random", "did you mean 'uniform'? "},          {"amper", "'amper-k' or 'amper-fr'? "},
      {"nonsense", "choose prioritized, uniform"},
  };
  for (const auto& [name, remedy] : wrong) {
    SamplerSpec spec;
    spec.name = name;
    try {
      make_sampler(spec, 16);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.status() == Status::config);
      CHECK_MESSAGE(error.remedy().find(remedy) != std::string::npos, name, ": ", error.remedy());
    }
  }
  for (const SamplerKind& kind : sampler_kinds()) {
    SamplerSpec with_option;
    with_option.name = kind.name;
    with_option.options["group_count"] = 4;
    CHECK_THROWS_WITH_AS(make_sampler(with_option, 16), doctest::Contains("group_count"), Error);
  }
}

}  // namespace drlnet::test
