// What a server's state says, read without a server.
#include <algorithm>
#include <memory>

#include "bindings.h"
#include "storage/recovery.h"
#include "storage/state_folder.h"

namespace drlnet {
namespace {

nb::dict described(const SavedTable& table) {
  const TableCounters& counters = table.state.counters;
  nb::dict result;
  result["name"] = table.asked.name;
  result["capacity"] = table.asked.capacity;
  result["rows"] = counters.head - counters.oldest;
  result["items"] = std::ranges::count(table.state.items, ItemState::live, &SavedItem::state);
  result["env_steps"] = counters.env_steps;
  return result;
}

// {"lineage", "incarnation", "shards": [{"record", "params_version", "tables": [...], "notes"}]}
nb::dict read_state(const std::string& path) {
  const StateFolder folder(path, shards_of_state(path), 0, true);
  nb::list shards;
  ReadProgress progress;  // looked at by none
  for (uint32_t i = 0; i < folder.shards(); ++i) {
    std::unique_ptr<Recovery> found;
    std::shared_ptr<const Params> params;
    {
      const nb::gil_scoped_release release;
      found = std::make_unique<Recovery>(folder.shard(i), folder.lineage(), progress);
      params = found->params();  // notes what of them is damaged
    }
    nb::dict shard;
    nb::list tables;
    const SavedState* state = found->state();
    if (state != nullptr) {
      for (const SavedTable& table : state->tables) tables.append(described(table));
    }
    shard["record"] = state != nullptr ? state->sequence : 0;
    shard["params_version"] = params ? params->version : 0;
    shard["tables"] = tables;
    std::vector<std::string> notes = found->notes();
    if (i == 0 && !folder.note().empty()) notes.insert(notes.begin(), folder.note());
    shard["notes"] = notes;
    shards.append(shard);
  }
  nb::dict result;
  result["lineage"] = folder.lineage();
  result["incarnation"] = folder.incarnation();
  result["shards"] = shards;
  return result;
}

}  // namespace

void bind_state(nb::module_& module) { module.def("read_state", &read_state, nb::arg("path")); }

}  // namespace drlnet
