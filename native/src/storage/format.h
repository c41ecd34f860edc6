// The bytes of a state on disk (drlnet/docs/operations.md lists its files). All numbers are
// little-endian, every header ends with a checksum of itself and names that of what follows.
// Parsers never throw and never read past the end.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "replay/table_state.h"
#include "spec/table_spec.h"
#include "storage/file.h"
#include "wire/messages.h"

namespace drlnet {

constexpr uint32_t kStateVersion = 2;

enum class FileKind : uint32_t {
  identity = 0x49524C44,  // "DLRI"
  rows = 0x52524C44,      // "DLRR"
  snapshot = 0x53524C44,  // "DLRS"
  params = 0x50524C44,    // "DLRP"
};

// Every file begins with it.
struct FileHeader {
  FileKind kind{};
  uint32_t version = kStateVersion;
  uint64_t lineage = 0;
  uint64_t name = 0;   // rows: the table's number; params: their version
  uint64_t first = 0;  // rows: the number of the first one
  uint32_t row_bytes = 0;
  uint32_t crc = 0;
};
static_assert(sizeof(FileHeader) == 40);

// identity: behind the header.
struct Identity {
  uint64_t incarnation = 0;
  uint32_t shards = 1;
  uint32_t epoch = 0;  // of the keys
};

// A part of a file: what is known of rows, their columns, a record of a snapshot, params.
struct PartHeader {
  uint32_t kind = 0;    // of a record: kBase or kChanges
  uint32_t rows = 0;    // of rows, and of columns
  uint64_t number = 0;  // of the first row; of the record; of the params
  uint64_t bytes = 0;   // that follow
  uint32_t body_crc = 0;
  uint32_t crc = 0;
};
static_assert(sizeof(PartHeader) == 32);
constexpr uint32_t kRows = 1, kBase = 2, kChanges = 3, kParams = 4, kIdentity = 5, kColumns = 6;

template <typename Header>
void set_crc(Header& header);  // sets its crc
template <typename Header>
bool intact(const Header& header);

// What a record of a snapshot says: the state of a shard but for rows and params.
struct SavedTable {
  uint32_t number = 0;
  TableSpec asked;
  TableState state;  // of a record of changes: the items that changed
};
struct SavedBlob {
  std::string name;
  uint64_t version = 0;
  Bytes bytes;
};
struct SavedState {
  uint64_t sequence = 0;
  uint64_t blobs_version = 0;
  uint32_t next_table = 0;      // the number that the next table gets
  uint64_t params_version = 0;  // the last one that params may have; those on disk may be older
  std::vector<std::pair<uint32_t, std::string>> dropped;
  std::vector<SavedTable> tables;
  std::vector<SavedBlob> blobs;  // in a record of changes: those that changed
};
void encode(const SavedState& state, Bytes& out);
// False for what does not parse, or says what no table could be.
bool decode(std::span<const std::byte> bytes, SavedState& state);

// The parts of a file, one after another.
class PartReader {
 public:
  // file: all of it. Fails where it does not begin with an intact header of that kind and lineage.
  PartReader(std::span<const std::byte> file, FileKind kind, uint64_t lineage);
  bool ok() const { return ok_; }
  const FileHeader& header() const { return header_; }
  struct Part {
    PartHeader header;
    std::span<const std::byte> body;
  };
  // Nothing at the end, or where a part is not whole: damaged() or cut_short() then says so.
  std::optional<Part> next();
  bool damaged() const { return damaged_; }      // its bytes are not those that were written
  bool cut_short() const { return cut_short_; }  // it ends before its time: in mid-write
  uint64_t offset() const { return at_; }

 private:
  std::span<const std::byte> file_;
  FileHeader header_;
  uint64_t at_ = 0;
  bool ok_ = false, damaged_ = false, cut_short_ = false;
};

// The snapshot that a server goes on from, and the tables of its records. No path: there is none.
struct KeptSnapshot {
  Path path;
  std::set<uint32_t> tables;
};

// Header and body of a part, one behind the other.
void append_part(PartHeader header, std::span<const std::byte> body, Bytes& out);
FileHeader read_header(std::span<const std::byte> file, FileKind kind, uint64_t lineage, bool& ok);

}  // namespace drlnet
