// The timed loops of the benchmarks. Latencies go into an array of the caller's; what is returned
// says how many calls there were.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "measure/calls.h"
#include "measure/core_distance.h"
#include "measure/ring.h"
#include "measure/samplers.h"
#include "measure/table.h"
#include "measure/udp_transfer.h"
#include "sampler/kernels/kernel.h"

namespace drlnet {
namespace {

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using Latencies = Array<uint64_t>;

template <typename T>
std::span<T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

measure::Loop loop_of(const Latencies& latencies, double budget_s) {
  return {span_of(latencies), static_cast<uint64_t>(budget_s * 1e9)};
}

size_t streamed_samples(Client& client, uint32_t table, uint32_t batch,
                        const std::vector<Array<uint8_t>>& buffers, const Latencies& latencies,
                        double budget_s) {
  std::vector<std::span<std::byte>> spans;
  for (const auto& buffer : buffers) spans.push_back(std::as_writable_bytes(span_of(buffer)));
  const measure::Loop loop = loop_of(latencies, budget_s);
  nb::gil_scoped_release release;
  return measure::streamed_samples(client, table, batch, spans, loop);
}

void bind_ring(nb::module_& module) {
  nb::class_<measure::RingPair>(module, "RingPair")
      .def(nb::init<int>())
      .def_static("file_bytes", &measure::RingPair::file_bytes)
      .def("echo",
           [](measure::RingPair& ring, double for_s) {
             nb::gil_scoped_release release;
             return ring.echo(static_cast<uint64_t>(for_s * 1e9));
           })
      .def("pings", [](measure::RingPair& ring, size_t payload_bytes, const Latencies& latencies,
                       double budget_s) {
        const measure::Loop loop = loop_of(latencies, budget_s);
        nb::gil_scoped_release release;
        return ring.pings(payload_bytes, loop);
      });
}

void bind_udp_transfer(nb::module_& module) {
  using measure::UdpReceiver;
  using measure::UdpSender;
  nb::class_<UdpSender>(module, "UdpSender")
      .def(
          "__init__",
          [](UdpSender* place, const std::string& poll, size_t row_bytes, size_t rows) {
            new (place) UdpSender(poll_of(poll), row_bytes, rows);
          },
          nb::arg("poll"), nb::arg("row_bytes") = 0, nb::arg("rows") = 0)
      .def_prop_ro("port", &UdpSender::port)
      .def("serve", [](UdpSender& sender, double for_s) {
        nb::gil_scoped_release release;
        return sender.serve(static_cast<uint64_t>(for_s * 1e9));
      });
  nb::class_<UdpReceiver>(module, "UdpReceiver")
      .def("__init__",
           [](UdpReceiver* place, uint16_t port, const std::string& poll) {
             new (place) UdpReceiver(port, poll_of(poll));
           })
      .def("transfers",
           [](UdpReceiver& receiver, uint64_t bytes, const Latencies& latencies, double budget_s) {
             const measure::Loop loop = loop_of(latencies, budget_s);
             nb::gil_scoped_release release;
             return receiver.transfers(bytes, loop);
           });
}

// One of the loops of an object that has several.
template <typename Measured>
auto batches_of(size_t (Measured::*loop)(uint32_t, const measure::Loop&)) {
  return [loop](Measured& measured, uint32_t batch, const Latencies& latencies, double budget_s) {
    const measure::Loop times = loop_of(latencies, budget_s);
    nb::gil_scoped_release release;
    return (measured.*loop)(batch, times);
  };
}

void bind_samplers(nb::module_& module) {
  module.def("kernel_names", [] {
    std::vector<std::string> names;
    for (const Kernel* kernel : kernels()) names.emplace_back(kernel->name);
    return names;
  });
  using measure::FullTable;
  using measure::LiveSampler;
  nb::class_<LiveSampler>(module, "LiveSampler")
      .def(
          "__init__",
          [](LiveSampler* place, const std::string& name, double exponent, double floor,
             const std::map<std::string, double>& options, const Array<const float>& priorities,
             uint64_t seed) {
            const SamplerSpec spec{name, exponent, floor, options};
            const std::span<const float> leaves = span_of(priorities);
            nb::gil_scoped_release release;
            new (place) LiveSampler(spec, leaves, seed);
          },
          // A converted copy of the priorities would not outlive the call.
          nb::arg("name"), nb::arg("exponent"), nb::arg("floor"), nb::arg("options"),
          nb::arg("priorities").noconvert(), nb::arg("seed"), nb::keep_alive<1, 6>())
      .def("draws", batches_of(&LiveSampler::draws))
      .def("updates", batches_of(&LiveSampler::updates));
  nb::class_<FullTable>(module, "FullTable")
      .def("__init__",
           [](FullTable* place, const TableSpec& spec) {
             nb::gil_scoped_release release;
             new (place) FullTable(spec);
           })
      .def("samples", batches_of(&FullTable::samples));
}

}  // namespace

void bind_measure(nb::module_& module) {
  module.def("measure_pings",
             [](Client& client, size_t payload_bytes, const Latencies& latencies, double budget_s) {
               const measure::Loop loop = loop_of(latencies, budget_s);
               nb::gil_scoped_release release;
               return measure::pings(client, payload_bytes, loop);
             });
  module.def(
      "measure_appends",
      [](StreamWriter& writer, const Array<const uint8_t>& row, const Latencies& latencies,
         double budget_s, double interval_s) {
        const measure::Loop loop = loop_of(latencies, budget_s);
        nb::gil_scoped_release release;
        return measure::appends(writer, std::as_bytes(span_of(row)), loop,
                                static_cast<uint64_t>(interval_s * 1e9));
      },
      nb::arg("writer"), nb::arg("row"), nb::arg("latencies"), nb::arg("budget_s"),
      nb::arg("interval_s") = 0.0);
  module.def("measure_reads",
             [](Client& client, uint32_t table, const Array<const uint64_t>& keys,
                const Array<uint8_t>& destination, const Latencies& latencies, double budget_s) {
               const measure::Loop loop = loop_of(latencies, budget_s);
               nb::gil_scoped_release release;
               return measure::reads(client, table, span_of(keys),
                                     std::as_writable_bytes(span_of(destination)), loop);
             });
  module.def("measure_samples",
             [](Client& client, uint32_t table, uint32_t batch, const Array<uint8_t>& destination,
                const Latencies& latencies, double budget_s) {
               const measure::Loop loop = loop_of(latencies, budget_s);
               nb::gil_scoped_release release;
               return measure::samples(client, table, batch,
                                       std::as_writable_bytes(span_of(destination)), loop);
             });
  module.def("measure_updates",
             [](Client& client, uint32_t table, const Array<const uint64_t>& keys,
                const Array<const float>& priorities, const Latencies& latencies, double budget_s) {
               const measure::Loop loop = loop_of(latencies, budget_s);
               nb::gil_scoped_release release;
               return measure::updates(client, table, span_of(keys), span_of(priorities), loop);
             });
  module.def("measure_fetches", [](Client& client, const Latencies& latencies, double budget_s) {
    const measure::Loop loop = loop_of(latencies, budget_s);
    nb::gil_scoped_release release;
    return measure::fetches(client, loop);
  });
  module.def("measure_streamed_samples", &streamed_samples);
  module.def("measure_copies", [](size_t row_bytes, size_t rows, size_t batch,
                                  const Latencies& latencies, double budget_s) {
    const measure::Loop loop = loop_of(latencies, budget_s);
    nb::gil_scoped_release release;
    return measure::copies(row_bytes, rows, batch, loop);
  });
  module.def("core_round_trip_ns", [](unsigned core) {
    nb::gil_scoped_release release;
    return measure::core_round_trip_ns(core);
  });
  bind_ring(module);
  bind_replay(module);
  bind_udp_transfer(module);
  bind_samplers(module);
}

}  // namespace drlnet
