#include "storage/recovery.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "storage/item_shadow.h"

namespace drlnet {

std::vector<Path> snapshot_files(const Path& folder) {
  std::vector<Path> files;
  for (const auto& [record, path] : numbered_files(folder, "snapshot-")) files.push_back(path);
  return files;
}

std::map<uint64_t, Path> params_files(const Path& folder) {
  return numbered_files(folder, "params-");
}

uint64_t bytes_in(const Path& folder) {
  uint64_t bytes = 0;
  for (const Path& path : list_folder(folder)) {
    if (path.extension() != ".new") bytes += file_bytes(path);
  }
  return bytes;
}

Recovery::Recovery(const Path& folder, uint64_t lineage, ReadProgress& progress)
    : folder_(folder), lineage_(lineage), progress_(progress) {
  read_snapshots();
  put_together();
}

void Recovery::read_snapshots() {
  files_ = snapshot_files(folder_);
  for (size_t i = 0; i < files_.size(); ++i) read_snapshot(i);
  if (!records_.empty()) return;
  // A new shard writes its first snapshot before any rows or params.
  const bool is_new = tables_with_rows(folder_).empty() && params_files(folder_).empty();
  if (files_.empty() && is_new) return;
  throw Error(
      Status::state_damaged,
      files_.empty()
          ? "the snapshots in " + folder_.string() + " are missing; its rows or params are not"
          : "no snapshot in " + folder_.string() + " can be read: " + notes_.back(),
      "restore the folder from a copy, or name another one");
}

// A file begins with a record of all; one that is not whole ends what can be read of the file.
void Recovery::read_snapshot(size_t index) {
  const std::string name = files_[index].filename().string();
  const std::vector<std::byte> bytes = read_file(files_[index]);
  progress_.add(bytes.size());
  PartReader parts(bytes, FileKind::snapshot, lineage_);
  const bool newest = index + 1 == files_.size();
  bool first = true, sound = true;
  while (const auto part = parts.next()) {
    Record record{index, part->header.kind, {}};
    sound = decode(part->body, record.state) && record.state.sequence == part->header.number &&
            record.kind == (first ? kBase : kChanges);
    if (!sound) break;
    first = false;
    last_params_version_ = std::max(last_params_version_, record.state.params_version);
    records_.push_back(std::move(record));
  }
  // So ends a file whose server was killed in mid-write; what follows it begins with all.
  if (parts.cut_short() && !newest && !first) return;
  if (parts.ok() && sound && !first && !parts.damaged() && !parts.cut_short()) return;
  const uint64_t sequence = records_.empty() ? 0 : records_.back().state.sequence;
  notes_.push_back(name +
                   (parts.ok() ? ", byte " + std::to_string(parts.offset()) +
                                     (parts.damaged() || !sound ? ": its checksum is wrong"
                                                                : ": the file ends too early")
                               : ": it does not begin as a snapshot") +
                   (records_.empty() ? ""
                                     : "; goes on from record " + std::to_string(sequence) +
                                           ", the last one before it"));
}

// The chosen record is the last one; earlier ones of its file say what has not changed since.
void Recovery::put_together() {
  state_.reset();
  if (records_.empty()) return;
  size_t base = records_.size() - 1;
  while (records_[base].kind != kBase) --base;
  std::map<uint32_t, ItemShadow> shadows;
  std::map<std::string, SavedBlob> blobs;
  for (size_t i = base; i < records_.size(); ++i) {
    for (const SavedTable& table : records_[i].state.tables) {
      const uint64_t slots = table.state.counters.slots;
      shadows.try_emplace(table.number, slots).first->second.apply(table.state);
    }
    for (const SavedBlob& blob : records_[i].state.blobs) blobs[blob.name] = blob;
  }
  state_ = std::make_unique<SavedState>(records_.back().state);
  for (SavedTable& table : state_->tables) {
    table.state.items = shadows.at(table.number).items();
  }
  state_->blobs.clear();
  for (auto& [name, blob] : blobs) state_->blobs.push_back(std::move(blob));
}

// The head of the table in the newest record before the chosen one that needs no row from that one
// on; nothing where none does.
std::optional<uint64_t> Recovery::older_does_without(uint32_t table, uint64_t first,
                                                     size_t& record) const {
  for (record = records_.size() - 1; record-- > 0;) {
    const auto& tables = records_[record].state.tables;
    const auto found = std::ranges::find(tables, table, &SavedTable::number);
    if (found == tables.end()) return 0;
    if (found->state.counters.head <= first) return found->state.counters.head;
  }
  return std::nullopt;
}

std::unique_ptr<RowReader> Recovery::load(const SavedTable& saved, Table& table) {
  SavedTable kept = saved;
  Ring& ring = table.restore_rows(kept.state.counters);
  auto reader = std::make_unique<RowReader>(folder_, lineage_, saved.number);
  const TableCounters& counters = saved.state.counters;
  if (const auto gap = reader->load(ring, counters.oldest, counters.head, progress_)) {
    size_t older = 0;
    if (const auto head = older_does_without(saved.number, gap->first, older);
        head && counters.head - *head <= gap->end - counters.oldest) {
      notes_.push_back(gap->why + "; goes on from record " +
                       std::to_string(records_[older].state.sequence) +
                       ", which does without these rows");
      records_.resize(older + 1);
      put_together();
      return nullptr;
    }
    notes_.push_back(gap->why + "; rows " + std::to_string(counters.oldest) + " to " +
                     std::to_string(gap->end - 1) + " of table '" + printable(saved.asked.name) +
                     "' are given up");
    rows_lost_ += gap->end - counters.oldest;
    kept.state.counters.oldest = gap->end;
    ring.restore(counters.head, gap->end);
  }
  table.restore(kept.state);
  return reader;
}

std::shared_ptr<const Params> Recovery::params() {
  if (!state_) return nullptr;
  const std::map<uint64_t, Path> files = params_files(folder_);
  for (auto at = files.upper_bound(state_->params_version); at != files.begin();) {
    const auto& [version, path] = *--at;
    const std::vector<std::byte> bytes = read_file(path);
    progress_.add(bytes.size());
    PartReader parts(bytes, FileKind::params, lineage_);
    const auto part = parts.next();
    if (part && part->header.kind == kParams && part->header.number == version) {
      return std::make_shared<Params>(version,
                                      std::vector<std::byte>(part->body.begin(), part->body.end()));
    }
    notes_.push_back(path.filename().string() +
                     ": its checksum is wrong; goes on with older params, or none");
  }
  return nullptr;
}

uint64_t Recovery::last_params_version() const {
  const std::map<uint64_t, Path> files = params_files(folder_);
  return std::max(last_params_version_, files.empty() ? 0 : files.rbegin()->first);
}

KeptSnapshot Recovery::snapshot() const {
  if (records_.empty()) return {};
  const size_t file = records_.back().file;
  KeptSnapshot kept{files_[file], {}};
  for (const Record& record : records_) {
    if (record.file != file) continue;
    for (const SavedTable& table : record.state.tables) kept.tables.insert(table.number);
  }
  return kept;
}

}  // namespace drlnet
