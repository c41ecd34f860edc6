#include <memory>
#include <utility>

#include "batches.h"
#include "server/server.h"
#include "wire/frame.h"

namespace drlnet {
namespace {

constexpr char kClient[] = "a client";
using LeaseTuple = std::tuple<uint32_t, uint32_t, uint64_t, uint64_t>;

ClientOptions options_of(const std::string& address, const std::string& name, double timeout_s,
                         const std::string& poll, const nb::bytes& key) {
  return {address, name, ns_of(timeout_s), poll_of(poll), client_key_of(key)};
}

std::vector<LeaseTuple> tuples_of(const std::vector<Lease>& leases) {
  std::vector<LeaseTuple> result;
  for (const Lease& l : leases) result.emplace_back(l.ordinal, l.epoch, l.token, l.next_step);
  return result;
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
  nb::class_<HeldWriter>(module, "StreamWriter")
      .def("append",
           [](HeldWriter& held, const nb::list& columns, nb::handle first, nb::handle last,
              nb::handle mask, nb::handle steps) {
             const auto writer = held.use();
             std::vector<Memory> memory;
             std::vector<const std::byte*> rows;
             memory.reserve(columns.size());
             rows.reserve(columns.size());
             for (const nb::handle column : columns) {
               rows.push_back(memory.emplace_back(column).as<const std::byte>().data());
             }
             const Memory firsts(first), lasts(last), masks(mask);
             const Memory numbers(steps, PyBUF_WRITABLE);
             const Unlocked unlocked;
             writer->append(rows, firsts.as<const uint8_t>(), lasts.as<const uint8_t>(),
                            masks.as<const uint8_t>(), numbers.as<int64_t>());
           })
      .def("add_items",
           [](HeldWriter& held, nb::handle streams, nb::handle steps, nb::handle priorities) {
             const auto writer = held.use();
             const Memory indices(streams), anchors(steps), given(priorities);
             const Unlocked unlocked;
             writer->add_items(indices.as<const int64_t>(), anchors.as<const int64_t>(),
                               given.as<const float>());
           })
      .def("flush", unlocked<ShardedWriter, Callers::one>(&ShardedWriter::flush))
      .def("release", unlocked<ShardedWriter, Callers::one>(&ShardedWriter::release))
      .def_prop_ro("leases", [](HeldWriter& held) { return tuples_of(held.use()->leases()); })
      .def_prop_ro("rows_stored", [](HeldWriter& held) { return held.use()->rows_stored(); })
      .def_prop_ro("items_created", [](HeldWriter& held) { return held.use()->items_created(); })
      .def_prop_ro("items_refused", [](HeldWriter& held) { return held.use()->items_refused(); });
}

std::unique_ptr<HeldWriter> writer_of(HeldClient& held, uint32_t table, const TableSpec& spec,
                                      uint32_t streams, const std::vector<LeaseTuple>& resume,
                                      uint32_t flush_rows, double flush_interval_s,
                                      double timeout_s, nb::object tell) {
  const auto client = held.use();
  WriterOptions options{flush_rows, ns_of(flush_interval_s), ns_of(timeout_s)};
  if (!tell.is_none()) {
    // Shared: options are copied without the interpreter's lock, its counts of references are not.
    options.held = [told = std::make_shared<nb::object>(std::move(tell))](uint64_t held_ns) {
      const Locked locked;
      (*told)(static_cast<double>(held_ns) / 1e9);
    };
  }
  const Unlocked unlocked;
  std::vector<Lease> leases;
  for (const auto& [ordinal, epoch, token, step] : resume) {
    leases.push_back({ordinal, epoch, token, step});
  }
  return std::make_unique<HeldWriter>(client->writer(table, spec, streams, leases, options),
                                      "a writer");
}

std::unique_ptr<HeldStream> stream_of(HeldClient& held, uint32_t table, const BatchLayout& layout,
                                      const std::vector<Array<uint8_t>>& buffers) {
  const auto client = held.use();
  return std::make_unique<HeldStream>(client->stream(table, layout, memory_of(buffers)), kStream);
}

std::unique_ptr<HeldMirror> mirror_of(HeldClient& held, const TableSpec& spec, uint32_t rank,
                                      uint32_t world, const std::vector<bool>& apart) {
  const auto client = held.use();
  std::unique_ptr<MirroredTable> mirrored;
  {
    const Unlocked unlocked;
    mirrored = client->mirror(spec, {rank, world}, apart);
  }
  return std::make_unique<HeldMirror>(std::move(mirrored), "a mirror");
}

// (applied, stale), at once (0, 0) where the caller does not wait for the answer.
std::pair<uint64_t, uint64_t> update(HeldClient& held, uint32_t table, nb::handle keys,
                                     nb::handle priorities, bool wait) {
  const auto client = held.use();
  const Memory names(keys), values(priorities);
  const auto items = names.as<const uint64_t>();
  const auto given = values.as<const float>();
  const Unlocked unlocked;
  UpdateResult result{};
  if (wait) {
    result = client->update_priorities(table, items, given);
  } else {
    client->update_priorities_async(table, items, given);
  }
  return {result.applied, result.stale};
}

// [{"dotted.name": value}], a reading of each shard.
nb::list to_list(const std::vector<Metrics>& readings) {
  nb::list result;
  for (const Metrics& reading : readings) result.append(to_dict(reading));
  return result;
}

// (keys, priorities, next, oldest, more)
nb::tuple new_priorities(HeldClient& held, uint32_t table, uint32_t shard, uint64_t since) {
  const auto client = held.use();
  PriorityChanges changes;
  changes.next = since;
  bool more = false;
  {
    const Unlocked unlocked;
    more = client->new_priorities(table, shard, changes);
  }
  return nb::make_tuple(array_of(std::move(changes.keys)), array_of(std::move(changes.priorities)),
                        changes.next, changes.oldest, more);
}

nb::bytes python_bytes(std::span<const std::byte> bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

using AskedTuple = std::tuple<uint64_t, uint64_t, nb::bytes>;

nb::bytes ask(HeldClient& held, const nb::bytes& question, double patience_s) {
  const auto client = held.use();
  const std::span bytes(static_cast<const std::byte*>(question.data()), question.size());
  std::vector<std::byte> answer;
  {
    const Unlocked unlocked;
    answer = client->first().ask(bytes, ns_of(patience_s));
  }
  return python_bytes(answer);
}

// ([gone], [(client, request, question)])
nb::tuple answer(HeldClient& held, const std::vector<AskedTuple>& answers, bool begins,
                 bool at_once) {
  const auto client = held.use();
  std::vector<std::pair<Asked, std::span<const std::byte>>> given;
  for (const auto& [to, request, bytes] : answers) {
    given.push_back(
        {{to, request, 0, 0}, {static_cast<const std::byte*>(bytes.data()), bytes.size()}});
  }
  AskedQuestions asked;
  {
    const Unlocked unlocked;
    asked = client->first().answer(
        given, (begins ? kAnswersFromNow : 0) | (at_once ? kQuestionsAtOnce : 0));
  }
  nb::list questions;
  for (const auto& [from, bytes] : asked.questions) {
    questions.append(nb::make_tuple(from.client, from.request, python_bytes(bytes)));
  }
  return nb::make_tuple(asked.gone, questions);
}

nb::class_<HeldClient> bind_calls(nb::module_& module) {
  return nb::class_<HeldClient>(module, "Client")
      .def(
          "__init__",
          [](HeldClient* self, const std::string& address, const std::string& name,
             double timeout_s, const std::string& poll, const nb::bytes& key, bool patient) {
            ClientOptions options = options_of(address, name, timeout_s, poll, key);
            options.patient = patient;
            const Unlocked unlocked;
            new (self) HeldClient(std::make_unique<ShardedClient>(options, check_signals), kClient);
          },
          nb::arg("address"), nb::arg("name"), nb::arg("timeout_s"), nb::arg("poll"),
          nb::arg("key") = nb::bytes("", 0), nb::arg("patient") = false)
      .def_static(
          "of_first_shard",
          [](const std::string& address, const std::string& name, double timeout_s,
             const nb::bytes& key) {
            ClientOptions options = options_of(address, name, timeout_s, "block", key);
            options.first_shard_only = true;
            const Unlocked unlocked;
            return std::make_unique<HeldClient>(
                std::make_unique<ShardedClient>(options, check_signals), kClient);
          },
          nb::arg("address"), nb::arg("name"), nb::arg("timeout_s"),
          nb::arg("key") = nb::bytes("", 0))
      .def_static(
          "in_process",
          [](Server& server, const std::string& name, double timeout_s) {
            return std::make_unique<HeldClient>(
                std::make_unique<ShardedClient>(options_of(server.addresses().front(), name,
                                                           timeout_s, "adaptive", nb::bytes("", 0)),
                                                check_signals,
                                                [&server] { return server.poll_once(); }),
                kClient);
          },
          nb::keep_alive<0, 1>())
      .def("ping_us",
           [](HeldClient& held, size_t bytes) {
             const auto client = held.use();
             const Unlocked unlocked;
             const std::vector<std::byte> payload(bytes);
             return static_cast<double>(client->first().ping_ns(payload)) / 1e3;
           })
      .def("set_timeout",
           [](HeldClient& held, double timeout_s) {
             const auto client = held.use();
             client->set_timeout(ns_of(timeout_s));
           })
      .def_prop_ro("shards", [](HeldClient& held) { return held.use()->shards(); })
      .def("open_table", unlocked<ShardedClient, Callers::any>(&ShardedClient::open_table))
      .def("list_tables",
           [](HeldClient& held) {
             const auto client = held.use();
             const Unlocked unlocked;
             return client->first().list_tables();
           })
      .def("empty_table", unlocked<ShardedClient, Callers::any>(&ShardedClient::empty_table))
      .def("drop_table", unlocked<ShardedClient, Callers::any>(&ShardedClient::drop_table))
      .def("sample",
           [](HeldClient& held, uint32_t table, const BatchLayout& layout, nb::handle batch,
              double timeout_s) {
             const auto client = held.use();
             const Memory memory = batch_memory(batch);
             const Unlocked unlocked;
             client->sample(table, layout, bytes_of(memory), deadline_in(ns_of(timeout_s)));
           })
      .def("read_items",
           [](HeldClient& held, uint32_t table, uint32_t shard, const BatchLayout& layout,
              nb::handle keys, nb::handle batch, double timeout_s) {
             const auto client = held.use();
             const Memory names(keys), memory = batch_memory(batch);
             const Unlocked unlocked;
             client->read_items(table, shard, layout, names.as<const uint64_t>(), bytes_of(memory),
                                deadline_in(ns_of(timeout_s)));
           })
      .def("new_priorities", &new_priorities)
      .def("ask", &ask)
      .def("answer", &answer)
      .def("update_priorities", &update);
}

}  // namespace

void bind_client(nb::module_& module) {
  module.attr("max_request_bytes") = kMaxRequestBytes;
  module.attr("most_items") = kMaxBatch;  // of a batch
  bind_writer(module);
  bind_calls(module)
      // A writer or stream keeps its client; a stream keeps its layout and buffers.
      .def("writer", &writer_of, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), nb::arg().none(), nb::keep_alive<0, 1>())
      .def("stream", &stream_of, nb::keep_alive<0, 1>(), nb::keep_alive<0, 3>(),
           nb::keep_alive<0, 4>())
      .def("mirror", &mirror_of, nb::keep_alive<0, 1>())
      .def("take_over",
           [](HeldClient& held) {
             const auto client = held.use();
             const Unlocked unlocked;
             client->first().take_over();
           })
      .def("publish",
           [](HeldClient& held, const nb::bytes& params) {
             const auto client = held.use();
             const std::span bytes(static_cast<const std::byte*>(params.data()), params.size());
             const Unlocked unlocked;
             return client->first().publish(bytes);
           })
      .def("fetch",
           [](HeldClient& held, uint64_t newer_than) {
             const auto client = held.use();
             std::vector<std::byte> bytes;
             uint64_t version = 0;
             {
               const Unlocked unlocked;
               version = client->first().fetch(newer_than, bytes);
             }
             return std::make_pair(version, nb::bytes(bytes.data(), bytes.size()));
           })
      .def("put_blob",
           [](HeldClient& held, const std::string& name, const nb::bytes& blob) {
             const auto client = held.use();
             const std::span bytes(static_cast<const std::byte*>(blob.data()), blob.size());
             const Unlocked unlocked;
             return client->first().put_blob(name, bytes);
           })
      .def("get_blob",
           [](HeldClient& held, const std::string& name, uint64_t newer_than) {
             const auto client = held.use();
             std::vector<std::byte> bytes;
             uint64_t version = 0;
             {
               const Unlocked unlocked;
               version = client->first().get_blob(name, newer_than, bytes);
             }
             return std::make_pair(version, python_bytes(bytes));
           })
      .def("stats",
           [](HeldClient& held) {
             const auto client = held.use();
             std::vector<Metrics> readings;
             {
               const Unlocked unlocked;
               readings = client->stats();
             }
             return to_list(readings);
           })
      .def("own_stats",
           [](HeldClient& held) {
             const auto client = held.use();
             return to_list(client->own_metrics());
           })
      .def("report", [](HeldClient& held, const nb::dict& values) {
        const auto client = held.use();
        const Metrics metrics = metrics_of(values);
        const Unlocked unlocked;
        client->report(metrics);
      });
}

}  // namespace drlnet
