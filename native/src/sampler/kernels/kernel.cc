#include "sampler/kernels/kernel.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"

namespace drlnet {

#if defined(__x86_64__)
extern const Kernel kAvx512Kernel, kAvx2Kernel;
#endif
extern const Kernel kPortableKernel;

namespace {

// The fastest first.
constexpr const Kernel* kAll[] = {
#if defined(__x86_64__)
    &kAvx512Kernel,
    &kAvx2Kernel,
#endif
    &kPortableKernel,
};

}  // namespace

std::span<const Kernel* const> kernels() {
  static const std::vector<const Kernel*> here = [] {
    std::vector<const Kernel*> run;
    std::copy_if(std::begin(kAll), std::end(kAll), std::back_inserter(run),
                 [](const Kernel* kernel) { return kernel->runs_here(); });
    return run;
  }();
  return here;
}

const Kernel& chosen_kernel() {
  const char* wanted = std::getenv("DRLNET_KERNEL");
  if (wanted == nullptr || *wanted == '\0') return *kernels().front();
  std::string names;
  for (const Kernel* kernel : kernels()) {
    if (kernel->name == wanted) return *kernel;
    (names += names.empty() ? "" : ", ") += kernel->name;
  }
  throw Error(Status::config,
              "DRLNET_KERNEL names '" + std::string(wanted) + "', which this machine cannot run",
              "unset it, or choose among " + names);
}

}  // namespace drlnet
