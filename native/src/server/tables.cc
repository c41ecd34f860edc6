#include "server/tables.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace drlnet {

Error dropped(std::string_view name) {
  return {Status::table_dropped, "table '" + std::string(name) + "' was dropped",
          "open it again, or end what still uses it"};
}

void require_same(const TableSpec& asked, const TableSpec& open) {
  if (const auto difference = compare(asked, open)) {
    throw Error(Status::table_mismatch,
                "table '" + open.name + "' is open with other settings: " + *difference,
                "give all clients the same settings, or use another table name or server");
  }
}

OpenTable* Tables::find(uint32_t number) {
  const auto found = std::ranges::lower_bound(open_, number, {}, &OpenTable::number);
  return found != open_.end() && found->number == number ? &*found : nullptr;
}

OpenTable* Tables::find(std::string_view name) {
  const auto found =
      std::ranges::find_if(open_, [&](const OpenTable& table) { return table.asked.name == name; });
  return found != open_.end() ? &*found : nullptr;
}

Error Tables::why_none(uint32_t number) const {
  if (number >= next_) {
    return {Status::unknown_table, "the server has no table " + std::to_string(number),
            "open the table before using it"};
  }
  const auto gone = std::ranges::find(dropped_, number, &Dropped::number);
  return dropped(gone != dropped_.end() ? gone->name : std::to_string(number));
}

OpenTable& Tables::add(OpenTable table) {
  DRLNET_ASSERT(open_.size() < kMost);
  table.number = next_++;
  return open_.emplace_back(std::move(table));
}

std::vector<std::pair<uint32_t, std::string>> Tables::dropped_tables() const {
  std::vector<std::pair<uint32_t, std::string>> list;
  for (const Dropped& one : dropped_) list.emplace_back(one.number, one.name);
  return list;
}

void Tables::restore(uint32_t next, const std::vector<std::pair<uint32_t, std::string>>& dropped) {
  next_ = next;
  for (const auto& [number, name] : dropped) dropped_.push_back({number, name});
}

OpenTable& Tables::restore(OpenTable table) {
  DRLNET_ASSERT(open_.size() < kMost && (open_.empty() || open_.back().number < table.number));
  return open_.emplace_back(std::move(table));
}

void Tables::drop(uint32_t number) {
  OpenTable* table = find(number);
  DRLNET_ASSERT(table != nullptr);
  dropped_.push_back({number, std::move(table->asked.name)});
  if (dropped_.size() > kMost) dropped_.pop_front();
  open_.erase(open_.begin() + (table - open_.data()));
}

}  // namespace drlnet
