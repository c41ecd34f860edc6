#include "storage/storage.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/world.h"
#include "storage/recovery.h"

namespace drlnet {
namespace {

constexpr uint64_t kRetryNs = 1'000'000'000, kNever = ~uint64_t{0};
constexpr uint64_t kMinChangesBytes = 1 << 20;

Path numbered(const Path& folder, const char* prefix, uint64_t number) {
  char name[48];
  std::snprintf(name, sizeof name, "%s%019llu", prefix, static_cast<unsigned long long>(number));
  return folder / name;
}

Bytes headed(FileKind kind, uint64_t lineage, uint64_t name) {
  FileHeader header{.kind = kind, .lineage = lineage, .name = name};
  set_crc(header);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  return {bytes.begin(), bytes.end()};
}

// Whether it is that of a file that a kill in mid-write has left.
bool is_unfinished(const std::string& name) {
  return std::ranges::any_of(
      std::array<std::string_view, 2>{"params-", "snapshot-"}, [&](std::string_view prefix) {
        return name.starts_with(prefix) && name.ends_with(".new") &&
               name.find_first_not_of("0123456789", prefix.size()) == name.size() - 4;
      });
}

}  // namespace

Storage::Storage(const Path& folder, uint64_t lineage, KeptSnapshot keep,
                 std::function<void()> done)
    : folder_(folder),
      lineage_(lineage),
      kept_tables_(std::move(keep.tables)),
      done_(std::move(done)) {
  if (!keep.path.empty()) snapshots_.push_back(std::move(keep.path));
  thread_ = std::make_unique<Worker>([this] { loop(); });
}

Storage::~Storage() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  asked_.wake();
  thread_.reset();
}

void Storage::write(std::unique_ptr<Cut> cut) {
  DRLNET_ASSERT(!busy());
  {
    const std::lock_guard lock(mutex_);
    cut_ = std::move(cut);
    waiting_ = true;
  }
  asked_.wake();
}

std::unique_ptr<Cut> Storage::take_written() {
  if (!has_written()) return nullptr;
  written_.store(false, std::memory_order_relaxed);
  return std::move(cut_);
}

void Storage::finish() {
  uint64_t ours = 0;
  {
    const std::lock_guard lock(mutex_);
    ours = tries_begun_ + 1;
    hurries_ = true;
  }
  for (asked_.wake(); cut_ != nullptr && !has_written(); ended_.wait(kNever)) {
    ended_.clear();
    if (has_written()) return;
    const std::lock_guard lock(mutex_);
    if (last_failed_ < ours) continue;
    throw Error(Status::config, "the state is not saved: " + trouble_, remedy_);
  }
}

std::string Storage::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_.empty() ? "" : trouble_ + "\n" + remedy_;
}

void Storage::loop() {
  while (cut_waits()) {
    try_to_write(*cut_);
    ended_.wake();
    done_();
    if (in_trouble() && stops_by(now_ns() + kRetryNs)) return;
  }
}

// Once one does; false: it is to end.
bool Storage::cut_waits() {
  for (;; asked_.wait(kNever)) {
    asked_.clear();
    const std::lock_guard lock(mutex_);
    if (waiting_ || stopping_) return waiting_;
  }
}

bool Storage::stops_by(uint64_t until_ns) {
  for (; now_ns() < until_ns; asked_.wait(until_ns)) {
    asked_.clear();
    const std::lock_guard lock(mutex_);
    if (stopping_ || hurries_) return stopping_;
  }
  return false;
}

void Storage::try_to_write(const Cut& cut) {
  {
    const std::lock_guard lock(mutex_);
    ++tries_begun_;
    hurries_ = false;
  }
  std::optional<Error> failure;
  try {
    write_out(cut);
  } catch (const Error& error) {
    failure = error;
    after_trouble();
  }
  const std::lock_guard lock(mutex_);
  trouble_ = failure ? failure->cause() : "";
  remedy_ = failure ? failure->remedy() : "";
  in_trouble_.store(failure.has_value(), std::memory_order_relaxed);
  if (failure) {
    ++failures_;
    last_failed_ = tries_begun_;
    return;
  }
  waiting_ = false;
  ++records_;
  last_ns_ = now_ns() - cut.began_ns;
  written_.store(true, std::memory_order_release);
}

// What was written is not known to be on disk: rows go to new files, the record to a new snapshot.
void Storage::after_trouble() {
  snapshot_.close();
  params_written_ = 0;
}

void Storage::write_out(const Cut& cut) {
  if (records_ == 0) remove_unfinished();
  write_rows(cut);
  write_params(cut);
  write_record(cut);
  forget_dropped(cut);
}

void Storage::forget_dropped(const Cut& cut) {
  for (auto table = tables_.begin(); table != tables_.end();) {
    const auto kept = std::ranges::find(cut.state.tables, table->first, &SavedTable::number);
    if (kept != cut.state.tables.end()) {
      ++table;
      continue;
    }
    table->second.rows.remove_all();
    table = tables_.erase(table);
  }
  if (records_ > 0) return;
  // And those that an earlier life had dropped when it was killed.
  for (const uint32_t table : tables_with_rows(folder_)) {
    if (tables_.contains(table) || kept_tables_.contains(table)) continue;
    for (const Path& path : row_files(folder_, table)) remove_file(path);
  }
}

// Earlier lives left them, and such a name may never come again.
void Storage::remove_unfinished() const {
  for (const Path& path : list_folder(folder_)) {
    if (is_unfinished(path.filename().string())) remove_file(path);
  }
}

void Storage::write_rows(const Cut& cut) {
  uint64_t bytes = 0, rows = 0;
  for (size_t i = 0; i < cut.tables.size(); ++i) {
    const SavedTable& saved = cut.state.tables[i];
    const auto [at, made] =
        tables_.try_emplace(saved.number, TableFiles{RowWriter(folder_, lineage_, saved.number),
                                                     ItemShadow(saved.state.counters.slots)});
    RowWriter& writer = at->second.rows;
    const uint64_t before = writer.bytes_written();
    writer.write(cut.tables[i]->ring(), cut.rows_from[i], saved.state.counters.head);
    bytes += writer.bytes_written() - before;
    rows += saved.state.counters.head - cut.rows_from[i];
  }
  if (rows > 0) sync_folder(folder_);
  const std::lock_guard lock(mutex_);
  bytes_written_ += bytes;
  rows_written_ += rows;
}

void Storage::write_params(const Cut& cut) {
  if (!cut.params || cut.params->version == params_written_) return;
  const uint64_t version = cut.params->version;
  // Written even where there is such a file: its record may have been given up.
  Bytes bytes = headed(FileKind::params, lineage_, version);
  append_part({.kind = kParams, .number = version}, cut.params->bytes, bytes);
  replace_file(numbered(folder_, "params-", version), bytes);
  params_written_ = version;
  // Kept are these and those of the record before. Later ones are of records that were given up.
  std::map<uint64_t, Path> files = params_files(folder_);
  const auto later = files.upper_bound(version);
  for (auto file = later; file != files.end(); ++file) remove_file(file->second);
  files.erase(later, files.end());
  while (files.size() > 2) {
    remove_file(files.begin()->second);
    files.erase(files.begin());
  }
  const std::lock_guard lock(mutex_);
  bytes_written_ += bytes.size();
}

void Storage::write_record(const Cut& cut) {
  if (applied_ < cut.state.sequence) {  // not when it is tried again
    for (const SavedTable& table : cut.state.tables) {
      tables_.at(table.number).items.apply(table.state);
    }
    for (const SavedBlob& blob : cut.state.blobs) blobs_[blob.name] = blob;
    applied_ = cut.state.sequence;
  }
  record_.clear();
  if (wants_snapshot(cut)) {
    SavedState all = cut.state;
    for (SavedTable& table : all.tables) table.state.items = tables_.at(table.number).items.items();
    all.blobs.clear();
    for (const auto& [name, blob] : blobs_) all.blobs.push_back(blob);
    return begin_snapshot(cut, std::move(all));
  }
  Bytes body;
  encode(cut.state, body);
  append_part({.kind = kChanges, .number = cut.state.sequence}, body, record_);
  snapshot_.append(record_);
  snapshot_.sync();
  const std::lock_guard lock(mutex_);
  bytes_written_ += record_.size();
}

bool Storage::wants_snapshot(const Cut& cut) const {
  if (!snapshot_.is_open()) return true;
  if (snapshot_.bytes() > base_bytes_ + std::max(base_bytes_, kMinChangesBytes)) return true;
  // The rows of the snapshot before stay on disk: a quarter of a ring more at most. What is asked
  // for is the capacity of all shards.
  for (size_t i = 0; i < cut.tables.size(); ++i) {
    const SavedTable& saved = cut.state.tables[i];
    const uint64_t rows = saved.state.counters.head - tables_.at(saved.number).base_head;
    if (rows > cut.tables[i]->ring().capacity() / 4) return true;
  }
  return false;
}

// Records that were given up name rows that ours take the places of: before there is one of ours.
void Storage::forget_given_up(const Path& ours) {
  bool any = false;
  for (const Path& other : snapshot_files(folder_)) {
    if (snapshots_.empty() || other <= snapshots_.back() || other == ours) continue;
    remove_file(other);
    any = true;
  }
  if (any) sync_folder(folder_);
}

void Storage::begin_snapshot(const Cut& cut, SavedState&& all) {
  Bytes body;
  encode(all, body);
  record_ = headed(FileKind::snapshot, lineage_, all.sequence);
  append_part({.kind = kBase, .number = all.sequence}, body, record_);
  const Path path = numbered(folder_, "snapshot-", all.sequence);
  snapshot_.close();
  forget_given_up(path);
  snapshot_ = File::create(path.string() + ".new");
  snapshot_.append(record_);
  snapshot_.sync();
  snapshot_.rename(path);
  sync_folder(folder_);
  base_bytes_ = record_.size();
  if (snapshots_.empty() || snapshots_.back() != path) snapshots_.push_back(path);
  for (const Path& old : snapshot_files(folder_)) {
    const auto kept = std::ranges::find(snapshots_, old);
    if (kept == snapshots_.end() || snapshots_.end() - kept > 2) remove_file(old);
  }
  if (snapshots_.size() > 2) snapshots_.erase(snapshots_.begin(), snapshots_.end() - 2);
  for (const SavedTable& table : cut.state.tables) {
    TableFiles& files = tables_.at(table.number);
    files.previous_oldest = std::exchange(files.base_oldest, table.state.counters.oldest);
    files.base_head = table.state.counters.head;
    files.rows.remove_older(files.previous_oldest);
  }
  const std::lock_guard lock(mutex_);
  ++snapshots_written_;
  bytes_written_ += record_.size();
}

void Storage::read_metrics(Metrics& metrics) const {
  const std::lock_guard lock(mutex_);
  metrics.set("state.bytes_written", bytes_written_);
  metrics.set("state.rows_written", rows_written_);
  metrics.set("state.records", records_);
  metrics.set("state.snapshots", snapshots_written_);
  metrics.set("state.failures", failures_);
  metrics.set("state.last_write_ms", static_cast<double>(last_ns_) / 1e6);
}

}  // namespace drlnet
