// Appends steps of several streams: rows gather here and leave in requests of up to 256 KiB,
// several under way at once. Threading: one thread.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "client/client.h"
#include "spec/append.h"

namespace drlnet {

struct WriterOptions {
  uint32_t flush_rows = 64;                // a request leaves when it has this many rows, or those
                                           // that a queue has room for, or the items that the
                                           // limiter lets in at once
  uint64_t flush_interval_ns = 5'000'000;  // or when its oldest is this old at the next append
  uint64_t timeout_ns = 60'000'000'000;    // waiting for the limiter or the server
  // Where it is set, an append waits for the limiter until this throws: called about every second
  // of such a wait with its length. The server may still be silent for timeout_ns only.
  std::function<void(uint64_t held_ns)> held = {};
};

class StreamWriter {
 public:
  StreamWriter(Client& client, uint32_t table, const TableSpec& spec, std::vector<Lease> leases,
               WriterOptions options);
  // Does not flush. What is under way arrives; its answers are not awaited.
  ~StreamWriter();
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  // One row for each stream where mask is set (all when it is empty). columns[c] points to
  // stream-count rows of column c. steps receives each row's step number, -1 where masked.
  void append(std::span<const std::byte* const> columns, std::span<const uint8_t> first,
              std::span<const uint8_t> last, std::span<const uint8_t> mask,
              std::span<int64_t> steps);
  // Items anchored at rows appended before; priorities may be empty: the running maximum.
  void add_items(std::span<const int64_t> streams, std::span<const int64_t> steps,
                 std::span<const float> priorities);
  // Sends what is left, and again what the server lost since it was started again, and waits until
  // all is acknowledged. One that was interrupted, or ran into its deadline, goes on at the next.
  void flush();
  // The leases as they stand: next_step counts what was appended.
  const std::vector<Lease>& leases() const { return leases_; }
  void release();
  uint64_t rows_stored() const { return rows_stored_; }
  uint64_t items_created() const { return items_created_; }
  uint64_t items_refused() const { return items_refused_; }

 private:
  // What a server that keeps its state has acknowledged and not yet on disk: it is sent again where
  // the server was started again meanwhile. The oldest goes where all is more than kMostKept.
  static constexpr uint64_t kMostKept = 256 << 20;
  struct Sent {
    std::vector<std::byte> body;
    uint64_t record = 0;   // of the server's state
    bool counted = false;  // in rows_stored_ and its like
  };

  void send();
  void fill(std::vector<std::byte>& body);
  uint32_t make_room(uint32_t rows, uint32_t items);
  bool due() const;
  void look_at_replies(bool all);
  void finish_oldest();
  void unless_held(FunctionRef<bool(Deadline deadline, uint64_t patience_ns)> wait);
  CallId start(Client::Fill fill);
  void wait_for(CallId id);
  AppendResult take_reply(CallId id, Sent& sent, Status& status, std::vector<std::byte>& refusal);
  void check(Status status, const AppendResult& result, std::span<const std::byte> refusal) const;
  void count(const AppendResult& result, bool sent_again);
  void keep(Sent sent, const AppendResult& result);
  void send_again();
  uint64_t staged_bytes(uint32_t more_rows, uint32_t more_items) const;

  Client& client_;
  uint32_t table_;
  std::vector<uint32_t> column_bytes_;
  std::vector<Lease> leases_;
  WriterOptions options_;
  uint64_t most_items_;
  // Staged rows in order of arrival, and which stream each belongs to.
  std::vector<uint32_t> row_stream_;
  std::vector<uint8_t> row_flags_;
  std::vector<std::vector<std::byte>> row_columns_;
  std::vector<AppendItem> items_;
  std::vector<uint32_t> counts_, order_;  // per stream and per row, while a request is filled
  uint64_t oldest_ns_ = 0;
  std::deque<CallId> under_way_;
  std::deque<Sent> kept_;
  std::deque<Sent> again_;  // what is yet to be sent again, all of it after what is kept
  uint64_t kept_bytes_ = 0;
  uint64_t restarts_ = 0;  // of the server, that this writer knows of
  uint64_t rows_stored_ = 0, items_created_ = 0, items_refused_ = 0;
  bool released_ = false;
};

// Throws Error(config, bad_priority) for items that a writer of that many streams cannot add.
void check_items(size_t writer_streams, std::span<const int64_t> streams,
                 std::span<const int64_t> steps, std::span<const float> priorities);

}  // namespace drlnet
