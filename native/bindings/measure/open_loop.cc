// The open loops: of one session, of `drlnet bench load`, and of many, of `drlnet bench actors`;
// and what floods a server meanwhile.
#include "measure/open_loop.h"

#include "bindings.h"
#include "measure/calls.h"
#include "measure/crowd.h"
#include "measure/flood.h"

namespace drlnet {

using namespace measure;

void bind_open_loop(nb::module_& module) {
  nb::class_<OpenLoop>(module, "OpenLoop")
      .def("__init__",
           [](OpenLoop* self, const std::string& address, const std::string& poll, double loss,
              double delay_s) {
             const FaultPlan plan{.drop = loss, .delay_ns = ns_of(delay_s)};
             nb::gil_scoped_release release;
             new (self) OpenLoop(address, poll_of(poll), plan);
           })
      .def("ping", &OpenLoop::ping)
      .def("append",
           [](OpenLoop& load, Session& session, uint32_t table, const Array<const uint8_t>& row) {
             nb::gil_scoped_release release;
             load.append(table, session.lease(table, 1).front(), std::as_bytes(span_of(row)));
           })
      .def("sample", &OpenLoop::sample)
      .def("run", [](OpenLoop& load, double per_second, double limit_s, uint64_t seed,
                     const Latencies& latencies, const Latencies& late) {
        const auto waited = span_of(latencies), left_late = span_of(late);
        nb::gil_scoped_release release;
        const Offered offered = load.run(per_second, ns_of(limit_s), seed, waited, left_late);
        return std::make_pair(offered.answered, static_cast<double>(offered.elapsed_ns) / 1e9);
      });
  nb::class_<Flood>(module, "Flood")
      .def(nb::init<const std::string&, const std::string&, uint32_t>(),
           nb::call_guard<nb::gil_scoped_release>())
      .def("run", [](Flood& flood, double seconds) {
        nb::gil_scoped_release release;
        return flood.run(ns_of(seconds));
      });
  nb::class_<Crowd>(module, "Crowd")
      .def(nb::init<const std::string&, uint32_t, const TableSpec&, uint32_t>())
      .def("grow", &Crowd::grow, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("rows_stored", [](const Crowd& crowd) { return crowd.totals().rows_stored; })
      .def_prop_ro("items_created", [](const Crowd& crowd) { return crowd.totals().items_created; })
      .def("run", [](Crowd& crowd, double steps_per_second, double limit_s, uint64_t seed,
                     const Latencies& latencies, const Latencies& late) {
        const auto waited = span_of(latencies), left_late = span_of(late);
        nb::gil_scoped_release release;
        const Offered offered =
            crowd.run(steps_per_second, ns_of(limit_s), seed, waited, left_late);
        return std::make_pair(offered.answered, static_cast<double>(offered.elapsed_ns) / 1e9);
      });
}

}  // namespace drlnet
