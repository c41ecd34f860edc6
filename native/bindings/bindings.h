#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "base/metrics.h"

namespace drlnet {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_specs(nb::module_& module);
void bind_server(nb::module_& module);
void bind_client(nb::module_& module);

// {"dotted.name": int | float | str | HistogramReading}
nb::dict to_dict(const Metrics& metrics);

// While waiting without the GIL: raises KeyboardInterrupt when a signal handler asks for it.
void check_signals();

}  // namespace drlnet
