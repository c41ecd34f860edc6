#include "storage/row_loader.h"

#include <utility>

#include "base/printable.h"

namespace drlnet {
namespace {

constexpr size_t kMostCome = 8;  // runs that wait to be placed
constexpr uint64_t kNever = ~uint64_t{0};

}  // namespace

void place_columns(const ReadColumns& columns, LateTable& late, std::vector<std::string>& notes) {
  Table& table = *late.table;
  if (columns.damage.empty()) {
    RowReader::place(columns, table.ring().oldest(), table.ring_to_fill());
  } else if (table.give_up(columns.first, columns.end) > 0) {
    notes.push_back(columns.damage + "; rows " + std::to_string(columns.first) + " to " +
                    std::to_string(columns.end - 1) + " of table '" + printable(late.name) +
                    "' are given up");
  }
}

void place_all_columns(LateTable& late, std::vector<std::string>& notes) {
  ReadColumns columns;
  while (late.rows->next_columns(columns)) place_columns(columns, late, notes);
  late.table->have_columns_from(0);
}

RowLoader::RowLoader(std::vector<LateTable> tables, std::function<void()> came)
    : tables_(std::move(tables)), came_(std::move(came)) {
  for (const LateTable& late : tables_) readers_.push_back(late.rows.get());
  thread_ = std::make_unique<Worker>([this] { read_all(); });
}

RowLoader::~RowLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.wake();
  thread_.reset();
}

void RowLoader::read_all() {
  for (size_t i = 0; i < readers_.size(); ++i) {
    for (;;) {
      Come come{i, false, spare()};
      come.last = !readers_[i]->next_columns(come.columns);
      const bool last = come.last;
      if (!give(std::move(come))) return;
      if (last) break;
    }
  }
}

ReadColumns RowLoader::spare() {
  const std::lock_guard lock(mutex_);
  if (spares_.empty()) return {};
  ReadColumns columns = std::move(spares_.back());
  spares_.pop_back();
  return columns;
}

// Once there is room; false: the loop wants no more.
bool RowLoader::give(Come come) {
  for (;; room_.wait(kNever)) {
    room_.clear();
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    if (come_.size() == kMostCome) continue;
    come_.push_back(std::move(come));
    break;
  }
  came_();
  return true;
}

bool RowLoader::place_next(std::vector<std::string>& notes) {
  Come come;
  {
    const std::lock_guard lock(mutex_);
    if (come_.empty()) return false;
    come = std::move(come_.front());
    come_.pop_front();
  }
  room_.wake();
  LateTable& late = tables_[come.table];
  if (come.last) {
    late.table->have_columns_from(0);
    if (++ended_ == tables_.size()) tables_.clear();
    return true;
  }
  place_columns(come.columns, late, notes);
  late.table->have_columns_from(come.columns.first);
  const std::lock_guard lock(mutex_);
  spares_.push_back(std::move(come.columns));
  return true;
}

uint64_t RowLoader::rows_to_come() const {
  uint64_t rows = 0;
  for (const LateTable& late : tables_) rows += late.table->rows_without_columns();
  return rows;
}

}  // namespace drlnet
