// The extension module of the benchmarks. Of the types of `_native` it takes TableSpec alone, which
// is plain data: whatever works is made here, by this module's own copy of the core.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "measure/calls.h"
#include "measure/handover.h"
#include "measure/mirrored.h"
#include "measure/samplers.h"
#include "measure/udp_transfer.h"
#include "sampler/kernels/kernel.h"

namespace drlnet {
namespace {

using namespace measure;

void bind_floors(nb::module_& module) {
  module.def("copies", [](size_t row_bytes, size_t rows, size_t batch, const Latencies& latencies,
                          double budget_s) {
    return timed(latencies, budget_s,
                 [&](const Loop& loop) { return copies(row_bytes, rows, batch, loop); });
  });
  module.def("gathers", [](const TableSpec& spec, uint32_t batch, const Latencies& latencies,
                           double budget_s) {
    return timed(latencies, budget_s, [&](const Loop& loop) { return gathers(spec, batch, loop); });
  });
  module.def("core_round_trip_ns", &core_round_trip_ns, nb::call_guard<nb::gil_scoped_release>());
  module.def("handovers",
             [](unsigned core, size_t bytes, const Latencies& latencies, double budget_s) {
               return timed(latencies, budget_s,
                            [&](const Loop& loop) { return handovers(core, bytes, loop); });
             });
  module.def(
      "udp_transfers",
      [](std::optional<unsigned> core, const std::string& poll, uint64_t bytes,
         const Latencies& latencies, double budget_s) {
        const Poll how = poll_of(poll);
        return timed(latencies, budget_s,
                     [&](const Loop& loop) { return udp_transfers(core, how, bytes, loop); });
      },
      nb::arg("core").none(), nb::arg("poll"), nb::arg("bytes"), nb::arg("latencies_ns"),
      nb::arg("budget_s"));
}

void bind_samplers(nb::module_& module) {
  module.def("kernel_names", [] {
    std::vector<std::string> names;
    for (const Kernel* kernel : kernels()) names.emplace_back(kernel->name);
    return names;
  });
  nb::class_<LiveSampler>(module, "LiveSampler")
      .def(
          "__init__",
          [](LiveSampler* self, const std::string& name, double exponent, double floor,
             const std::map<std::string, double>& options, const Array<const float>& priorities,
             uint64_t seed) {
            const SamplerSpec spec{name, exponent, floor, options};
            const std::span<const float> leaves = span_of(priorities);
            nb::gil_scoped_release release;
            new (self) LiveSampler(spec, leaves, seed);
          },
          // A converted copy of the priorities would not outlive the call.
          nb::arg("name"), nb::arg("exponent"), nb::arg("floor"), nb::arg("options"),
          nb::arg("priorities").noconvert(), nb::arg("seed"), nb::keep_alive<1, 6>())
      .def("draws", loop_of(&LiveSampler::draws))
      .def("updates", loop_of(&LiveSampler::updates));
}

}  // namespace
}  // namespace drlnet

NB_MODULE(_measure, module) {
  module.doc() = "What drlnet's benchmarks time in native code: see drlnet.bench.measure.";
  drlnet::bind_errors(module);
  drlnet::bind_session(module);
  drlnet::bind_replays(module);
  drlnet::bind_open_loop(module);
  drlnet::bind_floors(module);
  drlnet::bind_samplers(module);
}
