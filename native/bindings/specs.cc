#include "base/error.h"
#include "base/printable.h"
#include "bindings.h"
#include "client/row_mirror.h"
#include "replay/limiter.h"
#include "sampler/sampler.h"
#include "spec/sample_layout.h"
#include "spec/table_spec.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace drlnet {
namespace {

DataType data_type_of(const std::string& name) {
  for (uint32_t i = 0; i < kDataTypeCount; ++i) {
    if (name == data_type_name(static_cast<DataType>(i))) return static_cast<DataType>(i);
  }
  throw Error(Status::config, "a column cannot be of type '" + name + "'",
              "use bool, an integer or a float of numpy's");
}

// Where the parts of a reply of n items lie.
nb::dict layout_of(const TableSpec& spec, uint64_t n) {
  const SampleLayout layout(spec);
  nb::dict result;
  result["total_bytes"] = layout.total_bytes(n);
  result["keys"] = layout.keys(n);
  result["probabilities"] = layout.probabilities(n);
  result["lengths"] = layout.lengths(n);
  nb::list views;
  for (const ViewPlace& place : layout.views()) {
    const Window& window = layout.windows()[place.window];
    views.append(
        nb::make_tuple(layout.window(n, place.window), window.rows(), place.first, place.rows));
  }
  result["views"] = views;
  return result;
}

// {"columns": {name: (dtype, shape)}, "views": {name: (column, lo, hi, pad_zero, from_end)}, ...}
nb::dict description_of(const TableSpec& spec) {
  nb::dict columns, views, result;
  for (const ColumnSpec& column : spec.columns) {
    columns[column.name.c_str()] = nb::make_tuple(data_type_name(column.type), column.shape);
  }
  for (const ViewSpec& view : spec.item.views) {
    views[view.name.c_str()] = nb::make_tuple(spec.columns[view.column].name, view.lo, view.hi,
                                              view.pad == Pad::zero, view.align == Align::end);
  }
  result["columns"] = columns;
  result["views"] = views;
  result["cross"] = spec.item.boundary == Boundary::cross;
  result["period"] = spec.item.period;
  result["samples_per_insert"] = spec.limiter.samples_per_insert;
  return result;
}

}  // namespace

void bind_specs(nb::module_& module) {
  nb::class_<TableSpec>(module, "TableSpec")
      .def(nb::init<>())
      .def_rw("name", &TableSpec::name)
      .def_rw("capacity", &TableSpec::capacity)
      .def_rw("seed", &TableSpec::seed)
      .def("add_column",
           [](TableSpec& spec, const std::string& name, const std::string& dtype,
              const std::vector<uint32_t>& shape) {
             spec.columns.push_back({name, data_type_of(dtype), shape});
           })
      .def("add_view",
           [](TableSpec& spec, const std::string& name, uint16_t column, int32_t lo, int32_t hi,
              bool pad_zero, bool from_end) {
             spec.item.views.push_back({name, column, lo, hi, pad_zero ? Pad::zero : Pad::repeat,
                                        from_end ? Align::end : Align::anchor});
           })
      .def("set_item",
           [](TableSpec& spec, bool cross, uint32_t period) {
             spec.item.boundary = cross ? Boundary::cross : Boundary::stop;
             spec.item.period = period;
           })
      .def("set_sampler",
           [](TableSpec& spec, const std::string& name, double exponent, double floor,
              const std::map<std::string, double>& options) {
             spec.sampler = {name, exponent, floor, options};
           })
      .def("set_limiter",
           [](TableSpec& spec, uint64_t min_size, double ratio, double error_buffer, uint32_t batch,
              uint32_t prefetch, uint32_t append_burst, uint32_t max_times_sampled) {
             spec.limiter = {min_size, ratio,        error_buffer,     batch,
                             prefetch, append_burst, max_times_sampled};
           })
      .def("numbered", [](const TableSpec& spec,
                          const std::vector<bool>& apart) { return numbered(spec, apart); })
      .def("describe", &description_of)
      .def("check", [](const TableSpec& spec) { check(spec); })
      .def("layout", &layout_of);

  // What a limiter without an error buffer says when all that was created can be drawn.
  module.def("may_sample",
             [](uint64_t min_size, double ratio, uint64_t created, uint64_t drawn, uint64_t batch) {
               Limiter limiter({.min_size = min_size, .samples_per_insert = ratio});
               limiter.inserted(created);
               limiter.sampled(drawn);
               return limiter.may_sample(batch, batch, {.live_items = created}) == Wait::none;
             });
  module.def("least_error_buffer",
             [](double ratio, uint32_t batch, uint32_t prefetch, uint32_t append_burst) {
               return LimiterSpec{.samples_per_insert = ratio,
                                  .batch = batch,
                                  .prefetch = prefetch,
                                  .append_burst = append_burst}
                   .least_error_buffer();
             });
  module.def("transport_names", [] {
    std::vector<std::string> names;
    for (const TransportKind& kind : transport_kinds()) names.emplace_back(kind.scheme);
    return names;
  });
  module.def("operation_names", [] {
    std::vector<std::string> names;
    for (size_t i = 0; i < kOperations; ++i) {
      names.emplace_back(operation_name(static_cast<Operation>(i)));
    }
    return names;
  });
  module.def("check_sampler",
             [](const std::string& name, const std::map<std::string, double>& options) {
               SamplerSpec spec;
               spec.name = name;
               spec.options = options;
               make_sampler(spec, 1);
             });
  module.def("sampler_names", [] {
    std::vector<std::string> names;
    for (const SamplerKind& kind : sampler_kinds()) names.emplace_back(kind.name);
    return names;
  });
  module.def("is_loopback", &is_loopback);
  // Halves of surrogate pairs, which UTF-8 has no bytes for, become escapes like the rest.
  module.def("printable", [](const nb::str& text) {
    PyObject* encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace");
    if (encoded == nullptr) throw nb::python_error();
    const auto bytes = nb::steal<nb::bytes>(encoded);
    return printable({bytes.c_str(), bytes.size()});
  });
  module.def("shard_address", &shard_address);
}

}  // namespace drlnet
