// A measuring client's calls, and the places where a learner can reach prioritized replay.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "client/writer.h"
#include "measure/calls.h"
#include "measure/mirrored.h"
#include "measure/replay.h"

namespace drlnet {
namespace {

using namespace measure;

constexpr uint64_t kNeverNs = 1'000'000'000'000'000;

// One stream's appends, a row and its item each.
struct Appender {
  Appender(Session& session, uint32_t table, const TableSpec& spec)
      : writer(session, table, spec, session.lease(table, 1), {2, kNeverNs}) {}
  StreamWriter writer;
  Schedule schedule;
};

// What the server has counted: its numbers, and how many a histogram holds.
std::map<std::string, double> counters_of(Session& session) {
  const Metrics metrics = session.stats();
  std::map<std::string, double> counters;
  for (const auto& [name, value] : metrics.list()) {
    if (const auto* count = std::get_if<uint64_t>(&value)) {
      counters[name] = static_cast<double>(*count);
    } else if (const auto* number = std::get_if<double>(&value)) {
      counters[name] = *number;
    } else if (const auto* histogram = std::get_if<HistogramReading>(&value)) {
      counters[name] = static_cast<double>(histogram->count);
    }
  }
  return counters;
}

size_t stream_samples(Session& session, uint32_t table, uint32_t batch,
                      const std::vector<Array<uint8_t>>& buffers, const Latencies& latencies,
                      double budget_s) {
  std::vector<std::span<std::byte>> spans;
  for (const auto& buffer : buffers) spans.push_back(bytes_of(buffer));
  return timed(latencies, budget_s, [&](const Loop& loop) {
    return streamed_samples(session, table, batch, spans, loop);
  });
}

auto batches_of(size_t (Replay::*method)(uint32_t, std::span<std::byte>, const Loop&)) {
  return [method](Replay& replay, uint32_t batch, const Array<uint8_t>& out,
                  const Latencies& latencies, double budget_s) {
    return timed(latencies, budget_s,
                 [&](const Loop& loop) { return (replay.*method)(batch, bytes_of(out), loop); });
  };
}

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<Session>(module, "Session")
      .def(
          "__init__",
          [](Session* self, const std::string& address, const std::string& name, double timeout_s,
             const std::string& poll, const nb::bytes& key) {
            const ClientOptions options{address, name, ns_of(timeout_s), poll_of(poll),
                                        client_key_of(key)};
            nb::gil_scoped_release release;
            new (self) Session(options, check_signals);
          },
          nb::arg("address"), nb::arg("name"), nb::arg("timeout_s"), nb::arg("poll"),
          nb::arg("key") = nb::bytes("", 0))
      .def_prop_ro("shards", [](const Session& session) { return session.shards(); })
      .def("open_table",
           [](Session& session, const TableSpec& spec) {
             nb::gil_scoped_release release;
             return session.open_table(spec);
           })
      .def("fill",
           [](Session& session, uint32_t table, const TableSpec& spec, uint64_t rows) {
             nb::gil_scoped_release release;
             fill(session, table, spec, rows);
           })
      .def("publish",
           [](Session& session, const nb::bytes& params) {
             return session.publish({static_cast<const std::byte*>(params.data()), params.size()});
           })
      .def("counters", &counters_of)
      .def("pings",
           [](Session& session, size_t bytes, const Latencies& latencies, double budget_s) {
             return timed(latencies, budget_s,
                          [&](const Loop& loop) { return pings(session, bytes, loop); });
           })
      .def("reads",
           [](Session& session, uint32_t table, const Array<const uint64_t>& keys,
              const Array<uint8_t>& to, const Latencies& latencies, double budget_s) {
             return timed(latencies, budget_s, [&](const Loop& loop) {
               return reads(session, table, span_of(keys), bytes_of(to), loop);
             });
           })
      .def("samples",
           [](Session& session, uint32_t table, uint32_t batch, const Array<uint8_t>& to,
              const Latencies& latencies, double budget_s) {
             return timed(latencies, budget_s, [&](const Loop& loop) {
               return samples(session, table, batch, bytes_of(to), loop);
             });
           })
      .def("updates",
           [](Session& session, uint32_t table, const Array<const uint64_t>& keys,
              const Array<const float>& priorities, const Latencies& latencies, double budget_s) {
             return timed(latencies, budget_s, [&](const Loop& loop) {
               return updates(session, table, span_of(keys), span_of(priorities), loop);
             });
           })
      .def("fetches",
           [](Session& session, const Latencies& latencies, double budget_s) {
             return timed(latencies, budget_s,
                          [&](const Loop& loop) { return fetches(session, loop); });
           })
      .def("streamed_appends",
           [](Session& session, uint32_t table, const TableSpec& spec, uint64_t rows,
              const Latencies& latencies, double budget_s) {
             return timed(latencies, budget_s, [&](const Loop& loop) {
               return streamed_appends(session, table, spec, rows, loop);
             });
           })
      .def("streamed_samples", &stream_samples);
  nb::class_<Appender>(module, "Appender")
      .def(nb::init<Session&, uint32_t, const TableSpec&>(), nb::keep_alive<1, 2>())
      .def("appends",
           [](Appender& appender, const Array<const uint8_t>& row, const Latencies& latencies,
              double budget_s) {
             return timed(latencies, budget_s, [&](const Loop& loop) {
               return appends(appender.writer, std::as_bytes(span_of(row)), loop);
             });
           })
      .def("paced_appends",
           [](Appender& appender, const Array<const uint8_t>& row, double interval_s,
              const Latencies& since_due, const Latencies& latencies, double budget_s) {
             appender.schedule.interval_ns = ns_of(interval_s);
             return timed(latencies, budget_s, [&](const Loop& loop) {
               return paced_appends(appender.writer, std::as_bytes(span_of(row)), appender.schedule,
                                    span_of(since_due), loop);
             });
           });
}

void bind_replays(nb::module_& module) {
  nb::class_<Replay>(module, "Replay")
      .def("sample",
           [](Replay& replay, uint32_t batch, const Array<uint8_t>& out) {
             nb::gil_scoped_release release;
             replay.sample(batch, bytes_of(out));
           })
      .def("update",
           [](Replay& replay, const Array<const uint64_t>& keys,
              const Array<const float>& priorities) {
             nb::gil_scoped_release release;
             replay.update(span_of(keys), span_of(priorities));
           })
      .def("samples", batches_of(&Replay::samples))
      .def("cycles", batches_of(&Replay::cycles));
  nb::class_<InNetworkReplay, Replay>(module, "InNetworkReplay")
      .def(nb::init<Session&, uint32_t, const TableSpec&>(), nb::keep_alive<1, 2>());
  nb::class_<MirroredReplay, Replay>(module, "MirroredReplay")
      .def(
          "__init__",
          [](MirroredReplay* self, Session& session, const std::string& name,
             const std::string& poll, const TableSpec& spec) {
            const ClientOptions options{session.address(), name, ns_of(10), poll_of(poll)};
            nb::gil_scoped_release release;
            new (self) MirroredReplay(session, options, spec);
          },
          nb::keep_alive<1, 2>());
  nb::class_<StoreReplay, Replay>(module, "StoreReplay")
      .def(nb::init<Session&, uint32_t, const TableSpec&>(), nb::keep_alive<1, 2>());
  nb::class_<LocalReplay, Replay>(module, "LocalReplay")
      .def(
          "__init__",
          [](LocalReplay* self, const std::string& listen, const std::string& poll,
             const TableSpec& spec, std::optional<unsigned> core) {
            const Poll how = poll_of(poll);
            nb::gil_scoped_release release;
            new (self) LocalReplay(listen, how, spec, core);
          },
          nb::arg("listen"), nb::arg("poll"), nb::arg("spec"), nb::arg("core").none())
      .def_prop_ro("address", &LocalReplay::address)
      .def_prop_ro("session", &LocalReplay::session, nb::rv_policy::reference_internal)
      .def_prop_ro("table", &LocalReplay::table);
}

}  // namespace drlnet
