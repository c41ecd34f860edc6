#include "server/reply.h"
#include "server/server.h"

namespace drlnet {
namespace {

constexpr size_t kMaxTables = 256;

}  // namespace

uint16_t Server::open_table(Peer&, Slot& slot, std::span<const std::byte> body) {
  TableSpec spec;
  if (!decode(body, spec)) return refuse(slot, Status::bad_request, kMalformed, kMalformedRemedy);
  if (!sampler_.name.empty()) {
    spec.sampler.name = sampler_.name;
    spec.sampler.options = sampler_.options;
  }
  for (uint32_t i = 0; i < tables_.size(); ++i) {
    if (specs_[i].name != spec.name) continue;
    if (const auto difference = compare(spec, specs_[i])) {
      return refuse(slot, Status::table_mismatch,
                    "table '" + spec.name + "' is open with other settings: " + *difference,
                    "give all clients the same settings, or use another table name or server");
    }
    reply_with(slot, OpenTableReply{i, tables_[i]->emptiest_shard()});
    return 0;
  }
  if (tables_.size() == kMaxTables) {
    return refuse(slot, Status::server_full,
                  "the server holds " + std::to_string(kMaxTables) + " tables, its maximum",
                  "use fewer tables, or another server");
  }
  try {
    check(spec, shards_ ? shards_->count() : 1);
    const TableSpec part = shards_ ? shards_->part(spec, shard_) : spec;
    const uint64_t bytes = Table::memory_bytes(part);
    if (bytes > memory_limit_ - memory_used_) {
      return refuse(slot, Status::config,
                    "table '" + spec.name + "' takes " + std::to_string(bytes >> 20) +
                        " MiB, the server has " +
                        std::to_string((memory_limit_ - memory_used_) >> 20) + " MiB left",
                    "lower the capacity, or give the server more (--memory)");
    }
    auto table = std::make_unique<Table>(part, static_cast<uint8_t>(shard_), epoch_,
                                         shards_ ? shards_->table(spec) : nullptr);
    table->mark(sessions_.clock_ns(), params_version());
    memory_used_ += bytes;
    std::vector<uint32_t> column_bytes;
    for (const ColumnSpec& column : spec.columns) {
      column_bytes.push_back(static_cast<uint32_t>(column.bytes()));
    }
    columns_.reserve(std::max(columns_.capacity(), column_bytes.size()));
    column_bytes_.push_back(std::move(column_bytes));
    tables_.push_back(std::move(table));
    specs_.push_back(std::move(spec));
  } catch (const Error& error) {
    return refuse(slot, error.status(), error.cause(), error.remedy());
  }
  reply_with(slot, OpenTableReply{static_cast<uint32_t>(tables_.size() - 1),
                                  tables_.back()->emptiest_shard()});
  return 0;
}

}  // namespace drlnet
