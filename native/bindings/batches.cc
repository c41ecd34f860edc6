#include "batches.h"

#include <cstring>

#include "sampler/importance.h"

namespace drlnet {
namespace {

void bind_stream(nb::module_& module) {
  nb::class_<HeldStream>(module, "BatchStream").def("next", [](HeldStream& held, double timeout_s) {
    const auto stream = held.use();
    const Unlocked unlocked;
    return stream->next(deadline_in(ns_of(timeout_s)));
  });
}

void bind_mirror(nb::module_& module) {
  nb::class_<HeldMirror>(module, "Mirror")
      .def("sample",
           [](HeldMirror& held, const BatchLayout& layout, nb::handle batch, double timeout_s) {
             const auto mirror = held.use();
             const Memory memory = batch_memory(batch);
             const Unlocked unlocked;
             mirror->table().sample(layout, bytes_of(memory), deadline_in(ns_of(timeout_s)));
           })
      .def(
          "stream",
          [](HeldMirror& held, const BatchLayout& layout,
             const std::vector<Array<uint8_t>>& buffers) {
            const auto mirror = held.use();
            return std::make_unique<HeldStream>(
                std::make_unique<ShardedStream>(mirror->table(), layout, memory_of(buffers)),
                kStream);
          },
          nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>())
      .def_prop_ro("places", [](HeldMirror& held) { return held.use()->mirror().places(); })
      // Returns (place, count).
      .def("copy_apart",
           [](HeldMirror& held, const std::vector<Array<uint8_t>>& to) {
             const auto mirror = held.use();
             const auto memory = memory_of(to);
             const Unlocked unlocked;
             const RowMirror::Run run = mirror->mirror().copy_apart(memory);
             return std::pair(run.place, run.count);
           })
      .def("has_shown",
           [](HeldMirror& held, bool let_go) { return held.use()->mirror().has_shown(let_go); })
      .def("stats", [](HeldMirror& held) {
        Metrics metrics;
        held.use()->mirror().read_metrics(metrics);
        return to_dict(metrics);
      });
}

// What Python needs to lay views over the memory of a batch.
void bind_layout(nb::module_& module) {
  module.def("importance_weights",
             [](nb::handle probabilities, float exponent, nb::handle weights) {
               const Memory drawn(probabilities), memory(weights, PyBUF_WRITABLE);
               importance_weights(drawn.as<const float>(), exponent, memory.as<float>());
             });
  nb::class_<BatchLayout>(module, "BatchLayout")
      .def(nb::init<const TableSpec&, uint32_t>())
      .def_prop_ro("memory_bytes", &BatchLayout::memory_bytes)
      .def_prop_ro("keys",
                   [](const BatchLayout& layout) { return layout.reply().keys(layout.count()); })
      .def_prop_ro(
          "probabilities",
          [](const BatchLayout& layout) { return layout.reply().probabilities(layout.count()); })
      .def_prop_ro("lengths",
                   [](const BatchLayout& layout) { return layout.reply().lengths(layout.count()); })
      .def_prop_ro("views",
                   [](const BatchLayout& layout) {
                     std::vector<std::pair<uint64_t, uint64_t>> views;
                     for (const auto& view : layout.views()) {
                       views.emplace_back(view.offset, view.item_bytes);
                     }
                     return views;
                   })
      // Returns what the reply's header says:
      // (item_count, head, env_steps, items_created, items_drawn, priority_mass)
      .def("align_views", [](const BatchLayout& layout, nb::handle batch) {
        const Memory memory = batch_memory(batch);
        SampleHeader header;
        {
          const Unlocked unlocked;
          layout.align_views(bytes_of(memory));
          std::memcpy(&header, bytes_of(memory).data(), sizeof header);
        }
        return nb::make_tuple(header.item_count, header.head, header.env_steps,
                              header.items_created, header.items_drawn, header.priority_mass);
      });
}

}  // namespace

void bind_batches(nb::module_& module) {
  bind_layout(module);
  bind_stream(module);
  bind_mirror(module);
}

}  // namespace drlnet
