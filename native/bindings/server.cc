#include "server/server.h"

#include "batches.h"
#include "bindings.h"
#include "held.h"
#include "server/shards.h"

namespace drlnet {
namespace {

// Texts of other clients need not be UTF-8; a name that was cut is not.
nb::object to_python(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}
template <typename T>
nb::object to_python(const T& reading) {
  return nb::cast(reading);
}

// Each: the server's secret, and the public keys of viewers, actors and learners.
KeyRing ring_of(const std::vector<nb::bytes>& identities) {
  KeyRing ring;
  for (const nb::bytes& identity : identities) {
    const std::vector<Key> keys = keys_of(identity, 1 + kRoles);
    ring.emplace_back(keys[0], std::array{keys[1], keys[2], keys[3]});
  }
  return ring;
}

}  // namespace

nb::dict to_dict(const Metrics& metrics) {
  nb::dict result;
  for (const auto& [name, value] : metrics.list()) {
    const nb::object key = to_python(name);
    std::visit([&](const auto& reading) { result[key] = to_python(reading); }, value);
  }
  return result;
}

void bind_server(nb::module_& module) {
  module.def("public_key", [](const nb::bytes& secret) {
    const Key key = public_of(keys_of(secret, 1)[0]);
    return nb::bytes(key.data(), key.size());
  });
  nb::class_<HistogramReading>(module, "HistogramReading")
      .def_ro("count", &HistogramReading::count)
      .def_prop_ro("max_us", [](const HistogramReading& r) { return double(r.max_ns) / 1e3; })
      .def_prop_ro("mean_us",
                   [](const HistogramReading& r) {
                     return r.count ? double(r.sum_ns) / double(r.count) / 1e3 : 0.0;
                   })
      .def_prop_ro("buckets",
                   [](const HistogramReading& r) {
                     std::vector<std::pair<double, uint64_t>> buckets;
                     for (const auto& [index, count] : r.buckets) {
                       buckets.emplace_back(double(Histogram::middle_of(index)) / 1e3, count);
                     }
                     return buckets;
                   })
      .def("percentile_us",
           [](const HistogramReading& r, double q) { return r.percentile_ns(q) / 1e3; })
      .def("since", &HistogramReading::since)
      .def("merged", &HistogramReading::merged);

  nb::class_<Server>(module, "Server")
      .def(
          "__init__",
          [](Server* self, const std::vector<std::string>& listen, const std::string& poll,
             uint64_t memory_bytes, const std::string& sampler,
             const std::map<std::string, double>& sampler_options, const std::string& version,
             bool index_only, const std::map<std::string, uint64_t>& limits) {
            ServerOptions options{listen,  poll_of(poll), memory_bytes, {sampler, sampler_options},
                                  version, index_only};
            options.limits = limits_from(limits);
            new (self) Server(options);
          },
          nb::arg("listen"), nb::arg("poll") = "adaptive", nb::arg("memory_bytes") = 0,
          nb::arg("sampler") = "", nb::arg("sampler_options") = std::map<std::string, double>(),
          nb::arg("version") = "", nb::arg("index_only") = false,
          nb::arg("limits") = std::map<std::string, uint64_t>())
      .def_static(
          "shards",
          [](const std::vector<std::string>& listen, uint32_t count, const std::string& poll,
             uint64_t memory_bytes, const std::string& sampler,
             const std::map<std::string, double>& sampler_options, const std::string& version,
             bool index_only, const std::string& state, double durability_s, bool read_state_only,
             const std::map<std::string, uint64_t>& limits, const std::vector<nb::bytes>& keys,
             uint32_t elsewhere, HeldClient* joins, const nb::object& on_loading) {
            ServerOptions options{listen,  poll_of(poll), memory_bytes, {sampler, sampler_options},
                                  version, index_only};
            options.state_folder = state;
            if (!keys.empty()) options.keys = std::make_shared<KeyStore>(ring_of(keys));
            options.limits = limits_from(limits);
            options.read_state_only = read_state_only;
            options.durability_ns = static_cast<uint64_t>(durability_s * 1e9);
            const auto tell = [&](const std::string& what) {
              const Locked locked;
              if (PyErr_CheckSignals() != 0) throw nb::python_error();
              return nb::cast<bool>(on_loading(what));
            };
            std::vector<std::unique_ptr<Server>> made;
            {
              const Unlocked unlocked;  // a state may take long to read
              if (joins == nullptr) {
                made = make_shards(options, count, elsewhere,
                                   on_loading.is_none() ? OnLoading() : tell);
              } else {
                DirectoryRequest request;
                request.places = count;
                made = make_shards_of(joins->use()->first().directory(request), options, count);
              }
            }
            nb::list servers;
            for (auto& server : made) servers.append(nb::cast(std::move(server)));
            return servers;
          },
          nb::arg("listen"), nb::arg("count"), nb::arg("poll") = "adaptive",
          nb::arg("memory_bytes") = 0, nb::arg("sampler") = "",
          nb::arg("sampler_options") = std::map<std::string, double>(), nb::arg("version") = "",
          nb::arg("index_only") = false, nb::arg("state") = "", nb::arg("durability_s") = 1.0,
          nb::arg("read_state_only") = false, nb::arg("limits") = std::map<std::string, uint64_t>(),
          nb::arg("keys") = std::vector<nb::bytes>(), nb::arg("elsewhere") = 0,
          nb::arg("joins") = nb::none(), nb::arg("on_loading") = nb::none())
      .def_prop_ro("state_notes", &Server::state_notes)
      .def_prop_ro("state_trouble", &Server::state_trouble)
      .def_static("limits",
                  [] {
                    nb::list limits;
#define DRLNET_LIMIT(name, standard, lowest, highest, of) \
  limits.append(nb::make_tuple(#name, uint64_t{standard}, uint64_t{highest}, of));
#include "spec/limits.def"
#undef DRLNET_LIMIT
                    return limits;
                  })
      // What its process's shards have come to, for the server that they are a part of, and back.
      .def("tell",
           [](Server& server, HeldClient& held) {
             const auto client = held.use();
             const Unlocked unlocked;
             server.shards()->hear(client->first().directory(server.shards()->tell()));
           })
      .def_prop_ro("lost_shards",
                   [](const Server& server) {
                     return server.shards() ? server.shards()->lost()
                                            : std::vector<std::pair<uint32_t, std::string>>();
                   })
      .def_prop_ro("addresses", &Server::addresses)
      .def("run",
           [](Server& server) {
             const Unlocked unlocked;
             server.run();
           })
      .def("stop", &Server::stop)
      .def("set_keys", [](Server& server,
                          const std::vector<nb::bytes>& keys) { server.set_keys(ring_of(keys)); })
      .def("poll_once", &Server::poll_once)
      .def("stats", [](Server& server) {
        Metrics metrics;
        {
          const Unlocked unlocked;
          metrics = server.read_metrics();
        }
        return to_dict(metrics);
      });
}

}  // namespace drlnet
