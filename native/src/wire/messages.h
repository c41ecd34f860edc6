// Bodies of requests and replies (PROTOCOL.md, "Messages"). encode_* append to a vector; decode_*
// return false for bytes that do not parse and never throw. Fixed records travel as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "spec/append.h"
#include "spec/items.h"
#include "spec/table_spec.h"
#include "wire/frame.h"

namespace drlnet {

using Bytes = std::vector<std::byte>;

// The longest replies: samples, params (behind their FetchReply), all others, and refusals.
constexpr uint32_t kMaxSampleBytes = uint32_t{2} << 30;
constexpr uint32_t kMaxParamsBytes = uint32_t{2} << 30;
constexpr uint32_t kMaxReplyBytes = 64 << 20;
constexpr uint32_t kMaxErrorBytes = 4096;

// open_table: a TableSpec  ->  OpenTableReply
struct OpenTableReply {
  uint32_t table;  // number of the table in later requests
  uint32_t shard;  // where a client's first stream is to go, of several shards
};
void encode(const TableSpec& spec, Bytes& out);
bool decode(std::span<const std::byte> bytes, TableSpec& spec);

// list_tables: nothing  ->  the specifications of all tables, as their clients ask for them
void encode(std::span<const TableSpec> specs, Bytes& out);
bool decode(std::span<const std::byte> bytes, std::vector<TableSpec>& specs);

// lease: LeaseRequest  ->  Lease[count]
struct LeaseRequest {
  uint32_t table, count;
};
// resume and release: StreamRequest  ->  Lease[count] / nothing; then `count` of StreamName.
struct StreamRequest {
  uint32_t table, count;
};
// append: AppendHeader, AppendSegment[], row flags, columns, AppendItem[], each at a multiple of 8
//  ->  AppendResult
struct AppendHeader {
  uint32_t table, segments, rows, items;
};
// Splits the body for a table whose columns hold these many bytes per row; false when it does not
// fit.
bool split_append(std::span<const std::byte> bytes, std::span<const uint32_t> column_bytes,
                  Append& append);
// Length in bytes of an append of that size.
uint64_t append_bytes(std::span<const uint32_t> column_bytes, uint32_t segments, uint32_t rows,
                      uint32_t items);

// sample: SampleRequest  ->  the bytes of SampleLayout. A batch of 0 asks how things stand: its
// reply is the header alone.
struct SampleRequest {
  uint32_t table, batch;
  // It waits until the table may give as many draws, and at least `batch`: all shards together.
  uint32_t least = 0;
  uint32_t flags = 0;
};
// Bits of flags: rows' ages in the reply instead of windows of rows; and behind the request stands
// a key, u64, of the oldest row that the client has, and it has all from there on: samplers that
// can do so give it items of these, with their chances among them.
constexpr uint32_t kReferences = 1, kFrom = 2;

constexpr uint32_t kMaxBatch = 65536;

// read_items: ReadHeader, keys u64[count]  ->  the bytes of SampleLayout, in the keys' order, with
// stored priorities in place of probabilities. An item that is no longer held (or never was) has
// the key kNoKey, priority 0, length 0 and rows of zeros.
struct ReadHeader {
  uint32_t table, count;
};
constexpr uint32_t kMaxReadKeys = (kMaxSampleRequestBytes - sizeof(ReadHeader)) / 8;

// follow: FollowRequest  ->  the bytes of RowLayout: rows from that key on, in the order of their
// keys, as many as there are. It waits while there is none. With kBefore: the rows before that key,
// the newest of them, as many as are held; it does not wait.
struct FollowRequest {
  uint32_t table, most;  // most: rows in the reply
  uint64_t key;          // 0: from the oldest on that is held; before the one to come
};
constexpr uint32_t kBefore = 1u << 31;  // of most

// update_priorities: UpdateHeader, keys u64[count], priorities f32[count]  ->  UpdateResult
struct UpdateHeader {
  uint32_t table, count;
};
struct UpdateResult {
  uint64_t applied, stale;
};
// new_priorities: ChangesRequest  ->  ChangesHeader, keys u64[count], stored priorities f32[count]:
// the items that were created or ended, or whose priority was set, after the change numbered
// `since`, in the order of these changes: one that changed several times may come as often, always
// as it stands now. All items for a client that is too far behind. Priority 0: no item any more.
struct ChangesRequest {
  uint32_t table, most;  // most: of changes in the reply; the server gives kMaxChanges at most
  uint64_t since;        // 0: from the start
};
constexpr uint32_t kMaxChanges = 65536;

// publish: PublishHeader, bytes  ->  PublishReply (version is 0 until the last chunk came)
struct PublishHeader {
  uint64_t total_bytes, offset;
};
struct PublishReply {
  uint64_t version;
};
// fetch: FetchRequest  ->  FetchReply, then the params when version > newer_than
struct FetchRequest {
  uint64_t newer_than;
};
struct FetchReply {
  uint64_t version, total_bytes;
};

// put_blob: name text, bytes u32, these  ->  PutBlobReply
struct PutBlobReply {
  uint64_t version;
};
// get_blob: GetBlobRequest, name text  ->  GetBlobReply, then the blob when version > newer_than
struct GetBlobRequest {
  uint64_t newer_than;
};
struct GetBlobReply {
  uint64_t version;  // 0: there is none of that name
};

// ask: AskHeader, a question  ->  what the answering client answered. Both are bytes that only
// these two clients read.
struct AskHeader {
  uint64_t patience_ns;  // without a client that answers, before it is refused
};
// answer: AnswerHeader, then `count` of Asked, each followed by its answer, at a multiple of 8
//  ->  QuestionsHeader, clients u64[gone] whose sessions have ended, then `count` of Asked, each
// followed by its question, at a multiple of 8
struct AnswerHeader {
  uint32_t count;
  uint32_t flags;
};
constexpr uint32_t kAnswersFromNow = 1;   // this client does
constexpr uint32_t kQuestionsAtOnce = 2;  // the reply waits for none
struct QuestionsHeader {
  uint32_t count, gone;
};
struct Asked {
  uint64_t client, request;
  uint32_t bytes, reserved;  // bytes: of the question, or of its answer
};
constexpr uint32_t kMaxQuestionsBytes = 32 << 20;  // in one reply, and one question more

// stats: nothing  ->  Metrics.    report: Metrics  ->  nothing
// The longest report; and the bytes of all that one reply to stats repeats, where a reading counts
// kReadingNameBytes more: its client's name comes with it.
constexpr size_t kMaxReportReadings = 200, kMaxReportBytes = 64 * 1024;
constexpr size_t kMaxReportsBytes = 32 << 20, kReadingNameBytes = 64;
void encode(const Metrics& metrics, Bytes& out);
bool decode(std::span<const std::byte> bytes, Metrics& metrics);

// The body of a reply whose status is not ok, and of refuse.
void encode_error(std::string_view cause, std::string_view remedy, Bytes& out);
bool decode_error(std::span<const std::byte> bytes, std::string& cause, std::string& remedy);

}  // namespace drlnet
