// The tables that a server (a shard) has open. A number names one table and, once that is dropped,
// none: what outlives a request keeps the number, not the table. Threading: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "replay/table.h"

namespace drlnet {

struct OpenTable {
  TableSpec asked;                     // as its clients ask for it: of all shards together
  std::vector<uint32_t> column_bytes;  // for splitting appends
  uint64_t memory_bytes = 0;           // that it takes of the server's
  std::shared_ptr<Table> table;        // with a cut of the state that is being written
  uint32_t number = 0;                 // add() gives it
  uint64_t rows_saved = 0;             // rows below are on disk, of a server that keeps its state
};

// That the table of that name is gone.
Error dropped(std::string_view name);
// Throws Error(table_mismatch) where a client asks for another table than the one of that name.
void require_same(const TableSpec& asked, const TableSpec& open);

class Tables {
 public:
  static constexpr size_t kMost = 256;

  // nullptr for a table that is dropped, or never was. O(log of the tables).
  OpenTable* find(uint32_t number);
  OpenTable* find(std::string_view name);
  // Why no table has that number: Error(table_dropped, unknown_table).
  Error why_none(uint32_t number) const;

  size_t size() const { return open_.size(); }
  OpenTable& add(OpenTable table);  // of fewer than kMost
  void drop(uint32_t number);       // of one that is open

  // What is kept on disk of them, and made of it again; open ones follow by restore().
  uint32_t next_number() const { return next_; }
  std::vector<std::pair<uint32_t, std::string>> dropped_tables() const;
  void restore(uint32_t next, const std::vector<std::pair<uint32_t, std::string>>& dropped);
  OpenTable& restore(OpenTable table);  // with its number, which is the greatest so far

  // In the order of their numbers, which is that of their opening.
  auto begin() const { return open_.begin(); }
  auto end() const { return open_.end(); }

 private:
  struct Dropped {
    uint32_t number;
    std::string name;
  };
  std::vector<OpenTable> open_;
  std::deque<Dropped> dropped_;  // the kMost that went last
  uint32_t next_ = 0;            // number
};

}  // namespace drlnet
