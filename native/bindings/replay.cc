// Where a learner can reach prioritized replay, for the comparison of these places.
#include "measure/replay.h"

#include "bindings.h"
#include "measure/frame_transfer.h"

namespace drlnet {
namespace {

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <typename T>
std::span<T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

measure::Loop loop_of(const Array<uint64_t>& latencies, double budget_s) {
  return {span_of(latencies), static_cast<uint64_t>(budget_s * 1e9)};
}

// One of the loops over batches.
auto batches_of(size_t (measure::Replay::*loop)(uint32_t, std::span<std::byte>,
                                                const measure::Loop&)) {
  return [loop](measure::Replay& replay, uint32_t batch, const Array<uint8_t>& out,
                const Array<uint64_t>& latencies, double budget_s) {
    const measure::Loop times = loop_of(latencies, budget_s);
    nb::gil_scoped_release release;
    return (replay.*loop)(batch, std::as_writable_bytes(span_of(out)), times);
  };
}

}  // namespace

void bind_replay(nb::module_& module) {
  using namespace measure;
  nb::class_<Replay>(module, "Replay")
      .def("sample",
           [](Replay& replay, uint32_t batch, const Array<uint8_t>& out) {
             nb::gil_scoped_release release;
             replay.sample(batch, std::as_writable_bytes(span_of(out)));
           })
      .def("update",
           [](Replay& replay, const Array<const uint64_t>& keys,
              const Array<const float>& priorities) {
             nb::gil_scoped_release release;
             replay.update(span_of(keys), span_of(priorities));
           })
      .def("samples", batches_of(&Replay::samples))
      .def("cycles", batches_of(&Replay::cycles))
      .def_prop_ro("expired", &Replay::expired);
  nb::class_<InNetworkReplay, Replay>(module, "InNetworkReplay")
      .def(nb::init<Client&, uint32_t, const TableSpec&>(), nb::keep_alive<1, 2>());
  nb::class_<StoreReplay, Replay>(module, "StoreReplay")
      .def(nb::init<Client&, uint32_t, const TableSpec&>(), nb::keep_alive<1, 2>());
  nb::class_<LocalReplay, Replay>(module, "LocalReplay")
      .def(nb::init<Server&, const TableSpec&>(), nb::keep_alive<1, 2>());

  nb::class_<FrameSender>(module, "FrameSender")
      .def("__init__",
           [](FrameSender* self, const std::string& address, const std::string& poll) {
             nb::gil_scoped_release release;
             new (self) FrameSender(address, poll_of(poll));
           })
      .def_prop_ro("address", &FrameSender::address)
      .def("serve", [](FrameSender& sender, double for_s) {
        nb::gil_scoped_release release;
        return sender.serve(static_cast<uint64_t>(for_s * 1e9));
      });
  nb::class_<FrameReceiver>(module, "FrameReceiver")
      .def("__init__",
           [](FrameReceiver* self, const std::string& address, const std::string& poll) {
             nb::gil_scoped_release release;
             new (self) FrameReceiver(address, poll_of(poll));
           })
      .def("transfers", [](FrameReceiver& receiver, size_t bytes, const Array<uint64_t>& latencies,
                           double budget_s) {
        const Loop loop = loop_of(latencies, budget_s);
        nb::gil_scoped_release release;
        return receiver.transfers(bytes, loop);
      });
}

}  // namespace drlnet
