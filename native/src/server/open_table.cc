#include <algorithm>
#include <utility>

#include "base/world.h"
#include "server/reply.h"
#include "server/server.h"

namespace drlnet {

uint16_t Server::open_table(Peer&, Slot& slot, std::span<const std::byte> body) {
  TableSpec spec;
  if (!decode(body, spec)) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  choose_sampler(spec);
  follow_drops();  // so that what has this name is the table that the other shards have
  try {
    OpenTable* open = tables_.find(spec.name);
    if (open != nullptr) {
      require_same(spec, open->asked);
    } else {
      open = &tables_.add(make_table(std::move(spec)));
      if (keeper_) open->table->begin_saving();
    }
    reply_with(slot, OpenTableReply{open->number, open->table->emptiest_shard()});
  } catch (const Error& error) {
    return refuse(slot, error);
  }
  return 0;
}

void Server::choose_sampler(TableSpec& spec) const {
  if (sampler_.name.empty()) return;
  spec.sampler.name = sampler_.name;
  spec.sampler.options = sampler_.options;
}

// Before anything is made of it.
void Server::require_within_limits(const TableSpec& spec) {
  const Limits& limits = sessions_.limits();
  const auto require = [&](Limit limit, const std::string& of, uint64_t count, uint64_t most,
                           std::string_view remedy) {
    if (count <= most) return;
    sessions_.count_refusal(limit);
    throw Error(Status::server_full, "the server takes at most " + std::to_string(most) + of,
                std::string(remedy));
  };
  require(Limit::tables, " tables", tables_.size() + 1, limits.tables,
          "use fewer tables, drop one, or use another server");
  require(Limit::table_parts, " columns, views and sampler options of a table, each",
          std::max({spec.columns.size(), spec.item.views.size(), spec.sampler.options.size()}),
          limits.table_parts, "use fewer, or raise server.limits.table_parts");
  size_t longest = std::max(spec.name.size(), spec.sampler.name.size());
  for (const ColumnSpec& column : spec.columns) longest = std::max(longest, column.name.size());
  for (const ViewSpec& view : spec.item.views) longest = std::max(longest, view.name.size());
  for (const auto& option : spec.sampler.options) longest = std::max(longest, option.first.size());
  require(Limit::name_bytes, " bytes of a name", longest, limits.name_bytes,
          "use shorter names, or raise server.limits.name_bytes");
}

OpenTable Server::make_table(TableSpec spec) {
  require_within_limits(spec);
  check(spec, shards_ ? shards_->count() : 1);
  if (index_only_ && spec.limiter.max_times_sampled > 0) {
    throw Error(
        Status::config,
        "table '" + spec.name + "' is a queue, and this server keeps no rows (--index-only)",
        "start the server without --index-only");
  }
  const TableSpec part = shards_ ? shards_->part(spec, shard_) : spec;
  const uint64_t bytes = Table::memory_bytes(part, index_only_) +
                         (keeper_ ? Keeper::memory_bytes(ring_slots(part)) : 0);
  if (bytes > memory_limit_ - memory_used_) {
    sessions_.count_refusal(Limit::table_bytes);
    throw Error(
        Status::config,
        "table '" + spec.name + "' takes " + std::to_string(bytes >> 20) + " MiB, the server has " +
            std::to_string((memory_limit_ - memory_used_) >> 20) + " MiB left",
        "lower the capacity, drop a table, or give the server more (server.limits.table_bytes)");
  }
  OpenTable open;
  open.memory_bytes = bytes;
  open.table =
      std::make_shared<Table>(part, static_cast<uint8_t>(shard_), epoch_,
                              shards_ ? shards_->table(spec, shard_) : nullptr, index_only_);
  open.table->mark(now_ns(), params_version());
  for (const ColumnSpec& column : spec.columns) {
    open.column_bytes.push_back(static_cast<uint32_t>(column.bytes()));
  }
  columns_.reserve(std::max(columns_.capacity(), open.column_bytes.size()));
  open.asked = std::move(spec);
  memory_used_ += bytes;
  return open;
}

}  // namespace drlnet
