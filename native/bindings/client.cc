#include "client/client.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "bindings.h"
#include "client/batch_layout.h"
#include "client/sample_stream.h"
#include "client/sharded_table.h"
#include "client/writer.h"
#include "sampler/importance.h"
#include "server/server.h"

namespace drlnet {
namespace {

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using LeaseTuple = std::tuple<uint32_t, uint32_t, uint64_t, uint64_t>;

template <typename T>
std::span<T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

// The memory of a contiguous array, for as long as this holds it. An Array says more of what it
// gets, but to make one takes longer than most calls have to do otherwise.
class Memory {
 public:
  explicit Memory(nb::handle array, int flags = PyBUF_SIMPLE) {
    if (PyObject_GetBuffer(array.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~Memory() { PyBuffer_Release(&view_); }
  Memory(Memory&& other) noexcept : view_(std::exchange(other.view_, {})) {}

  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(view_.buf), static_cast<size_t>(view_.len) / sizeof(T)};
  }

 private:
  Py_buffer view_{};
};

// At most some thirty years, at least none; NaN is none.
uint64_t ns_of(double seconds) {
  return seconds > 0 ? static_cast<uint64_t>(std::min(seconds, 1e9) * 1e9) : 0;
}

ClientOptions options_of(const std::string& address, const std::string& name, double timeout_s,
                         const std::string& poll) {
  return {address, name, ns_of(timeout_s), poll_of(poll)};
}

std::vector<LeaseTuple> tuples_of(const std::vector<Lease>& leases) {
  std::vector<LeaseTuple> result;
  for (const Lease& l : leases) result.emplace_back(l.ordinal, l.epoch, l.token, l.next_step);
  return result;
}

// A numpy array that owns the values.
template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array_of(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner);
}

Metrics metrics_of(const nb::dict& values) {
  Metrics metrics;
  for (const auto& [key, value] : values) {
    auto name = nb::cast<std::string>(key);
    if (nb::isinstance<nb::str>(value)) {
      metrics.set(std::move(name), nb::cast<std::string>(value));
    } else if (nb::isinstance<nb::int_>(value) && nb::cast<int64_t>(value) >= 0) {
      metrics.set(std::move(name), nb::cast<uint64_t>(value));
    } else {
      metrics.set(std::move(name), nb::cast<double>(value));
    }
  }
  return metrics;
}

void bind_writer(nb::module_& module) {
  nb::class_<StreamWriter>(module, "StreamWriter")
      .def("append",
           [](StreamWriter& writer, const nb::list& columns, nb::handle first, nb::handle last,
              nb::handle mask, nb::handle steps) {
             std::vector<Memory> held;
             std::vector<const std::byte*> rows;
             held.reserve(columns.size());
             rows.reserve(columns.size());
             for (const nb::handle column : columns) {
               rows.push_back(held.emplace_back(column).as<const std::byte>().data());
             }
             const Memory firsts(first), lasts(last), masks(mask);
             const Memory numbers(steps, PyBUF_WRITABLE);
             nb::gil_scoped_release release;
             writer.append(rows, firsts.as<const uint8_t>(), lasts.as<const uint8_t>(),
                           masks.as<const uint8_t>(), numbers.as<int64_t>());
           })
      .def("add_items",
           [](StreamWriter& writer, nb::handle streams, nb::handle steps, nb::handle priorities) {
             const Memory indices(streams), anchors(steps), given(priorities);
             nb::gil_scoped_release release;
             writer.add_items(indices.as<const int64_t>(), anchors.as<const int64_t>(),
                              given.as<const float>());
           })
      .def("flush", &StreamWriter::flush, nb::call_guard<nb::gil_scoped_release>())
      .def("release", &StreamWriter::release, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("leases", [](const StreamWriter& writer) { return tuples_of(writer.leases()); })
      .def_prop_ro("rows_stored", &StreamWriter::rows_stored)
      .def_prop_ro("items_created", &StreamWriter::items_created)
      .def_prop_ro("items_refused", &StreamWriter::items_refused);
}

void bind_stream(nb::module_& module) {
  nb::class_<SampleStream>(module, "SampleStream")
      .def("next", [](SampleStream& stream, double timeout_s) {
        nb::gil_scoped_release release;
        return stream.next(deadline_in(ns_of(timeout_s)));
      });
}

std::unique_ptr<StreamWriter> writer_of(Client& client, uint32_t table, const TableSpec& spec,
                                        uint32_t streams, const std::vector<LeaseTuple>& resume,
                                        uint32_t flush_rows, double flush_interval_s,
                                        double timeout_s) {
  nb::gil_scoped_release release;
  std::vector<StreamName> names;
  for (const auto& [ordinal, epoch, token, step] : resume) names.push_back({ordinal, epoch, token});
  auto leases = names.empty() ? client.lease(table, streams) : client.resume(table, names);
  return std::make_unique<StreamWriter>(
      client, table, spec, std::move(leases),
      WriterOptions{flush_rows, ns_of(flush_interval_s), ns_of(timeout_s)});
}

// That a batch is to come into.
Memory batch_memory(nb::handle array) { return Memory(array, PyBUF_WRITABLE); }

std::span<std::byte> bytes_of(const Memory& memory) { return memory.as<std::byte>(); }

std::unique_ptr<SampleStream> stream_of(Client& client, uint32_t table, const BatchLayout& layout,
                                        const std::vector<Array<uint8_t>>& buffers) {
  std::vector<Destination> destinations;
  for (const auto& buffer : buffers) {
    destinations.push_back(layout.destination(std::as_writable_bytes(span_of(buffer))));
  }
  return std::make_unique<SampleStream>(client, table, layout.count(), std::move(destinations));
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
      .def("settle", [](const BatchLayout& layout, nb::handle batch) {
        const Memory memory = batch_memory(batch);
        SampleHeader header;
        {
          nb::gil_scoped_release release;
          layout.settle(bytes_of(memory));
          std::memcpy(&header, bytes_of(memory).data(), sizeof header);
        }
        return nb::make_tuple(header.item_count, header.head, header.env_steps,
                              header.items_created, header.items_drawn, header.priority_mass);
      });
}

// (applied, stale), of a table of the holder's; at once (0, 0) where nobody waits for the answer.
template <typename Holder, typename... Table>
std::pair<uint64_t, uint64_t> update(Holder& holder, nb::handle keys, nb::handle priorities,
                                     bool wait, Table... table) {
  const Memory names(keys), values(priorities);
  const auto items = names.as<const uint64_t>();
  const auto given = values.as<const float>();
  nb::gil_scoped_release release;
  UpdateResult result{};
  if (wait) {
    result = holder.update_priorities(table..., items, given);
  } else {
    holder.update_priorities_async(table..., items, given);
  }
  return {result.applied, result.stale};
}

void bind_sharded_table(nb::module_& module) {
  nb::class_<ShardedStream>(module, "ShardedStream")
      .def("next", [](ShardedStream& stream, double timeout_s) {
        nb::gil_scoped_release release;
        return stream.next(deadline_in(ns_of(timeout_s)));
      });
  nb::class_<ShardedTable>(module, "ShardedTable")
      .def(nb::init<std::vector<Client*>, const TableSpec&>(), nb::keep_alive<1, 2>(),
           nb::call_guard<nb::gil_scoped_release>())
      .def("number", &ShardedTable::number)
      .def_prop_ro("first_shard", &ShardedTable::first_shard)
      .def("sample",
           [](ShardedTable& table, const BatchLayout& layout, nb::handle batch, double timeout_s) {
             const Memory memory = batch_memory(batch);
             nb::gil_scoped_release release;
             table.sample(layout, bytes_of(memory), deadline_in(ns_of(timeout_s)));
           })
      .def(
          "stream",
          [](ShardedTable& table, const BatchLayout& layout,
             const std::vector<Array<uint8_t>>& buffers) {
            std::vector<std::span<std::byte>> memory;
            for (const auto& buffer : buffers) {
              memory.push_back(std::as_writable_bytes(span_of(buffer)));
            }
            return std::make_unique<ShardedStream>(table, layout, std::move(memory));
          },
          nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>())
      .def("update_priorities", [](ShardedTable& table, nb::handle keys, nb::handle priorities,
                                   bool wait) { return update(table, keys, priorities, wait); });
}

// (keys, priorities, next, oldest, more)
nb::tuple new_priorities(Client& client, uint32_t table, uint64_t since) {
  PriorityChanges changes;
  changes.next = since;
  bool more = false;
  {
    nb::gil_scoped_release release;
    more = client.new_priorities(table, changes);
  }
  return nb::make_tuple(array_of(std::move(changes.keys)), array_of(std::move(changes.priorities)),
                        changes.next, changes.oldest, more);
}

nb::class_<Client> bind_calls(nb::module_& module) {
  return nb::class_<Client>(module, "Client")
      .def("__init__",
           [](Client* self, const std::string& address, const std::string& name, double timeout_s,
              const std::string& poll) {
             nb::gil_scoped_release release;
             new (self) Client(options_of(address, name, timeout_s, poll), check_signals);
           })
      .def_static(
          "in_process",
          [](Server& server, const std::string& name, double timeout_s) {
            return std::make_unique<Client>(
                options_of(server.addresses().front(), name, timeout_s, "adaptive"), check_signals,
                [&server] { return server.poll_once(); });
          },
          nb::keep_alive<0, 1>())
      .def("ping_us",
           [](Client& client, size_t bytes) {
             nb::gil_scoped_release release;
             const std::vector<std::byte> payload(bytes);
             return static_cast<double>(client.ping_ns(payload)) / 1e3;
           })
      .def("set_timeout",
           [](Client& client, double timeout_s) { client.set_timeout(ns_of(timeout_s)); })
      .def_prop_ro("boot", &Client::boot)
      .def_prop_ro("shard", &Client::shard)
      .def_prop_ro("shards", &Client::shards)
      .def("open_table", &Client::open_table, nb::call_guard<nb::gil_scoped_release>())
      .def("sample",
           [](Client& client, uint32_t table, const BatchLayout& layout, nb::handle batch,
              double timeout_s) {
             const Memory memory = batch_memory(batch);
             nb::gil_scoped_release release;
             client.sample(table, layout.count(), layout.destination(bytes_of(memory)),
                           deadline_in(ns_of(timeout_s)));
           })
      .def("sample",
           [](Client& client, uint32_t table, uint32_t batch, const Array<uint8_t>& destination,
              double timeout_s) {
             nb::gil_scoped_release release;
             client.sample(table, batch, std::as_writable_bytes(span_of(destination)),
                           deadline_in(ns_of(timeout_s)));
           })
      .def("read_items",
           [](Client& client, uint32_t table, const BatchLayout& layout, nb::handle keys,
              nb::handle batch, double timeout_s) {
             const Memory names(keys), memory = batch_memory(batch);
             nb::gil_scoped_release release;
             client.read_items(table, names.as<const uint64_t>(),
                               layout.destination(bytes_of(memory)), deadline_in(ns_of(timeout_s)));
           })
      .def("new_priorities", &new_priorities)
      .def("update_priorities",
           [](Client& client, uint32_t table, nb::handle keys, nb::handle priorities, bool wait) {
             return update(client, keys, priorities, wait, table);
           });
}

}  // namespace

void bind_client(nb::module_& module) {
  bind_layout(module);
  bind_writer(module);
  bind_stream(module);
  bind_sharded_table(module);
  bind_calls(module)
      // A writer or stream keeps its client; a stream keeps its layout and buffers.
      .def("writer", &writer_of, nb::keep_alive<0, 1>())
      .def("stream", &stream_of, nb::keep_alive<0, 1>(), nb::keep_alive<0, 3>(),
           nb::keep_alive<0, 4>())
      .def("publish",
           [](Client& client, const nb::bytes& params) {
             const std::span bytes(static_cast<const std::byte*>(params.data()), params.size());
             nb::gil_scoped_release release;
             return client.publish(bytes);
           })
      .def("fetch",
           [](Client& client, uint64_t newer_than) {
             std::vector<std::byte> bytes;
             uint64_t version = 0;
             {
               nb::gil_scoped_release release;
               version = client.fetch(newer_than, bytes);
             }
             return std::make_pair(version, nb::bytes(bytes.data(), bytes.size()));
           })
      .def("stats",
           [](Client& client) {
             Metrics metrics;
             {
               nb::gil_scoped_release release;
               metrics = client.stats();
             }
             return to_dict(metrics);
           })
      .def("own_stats", [](Client& client) { return to_dict(client.own_metrics()); })
      .def("report", [](Client& client, const nb::dict& values) {
        const Metrics metrics = metrics_of(values);
        nb::gil_scoped_release release;
        client.report(metrics);
      });
}

}  // namespace drlnet
