// The replay server: tables and params behind sessions, one poll loop on one thread (a shard).
// Threading: everything on the thread that calls run() or poll_once(), but read_metrics(), which
// may be called from any thread, and stop(), from a signal handler too.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/poll.h"
#include "base/wake_fd.h"
#include "server/blobs.h"
#include "server/keeper.h"
#include "server/questions.h"
#include "server/shards.h"
#include "server/tables.h"
#include "session/server/sessions.h"
#include "storage/row_loader.h"
#include "wire/messages.h"

namespace drlnet {

// What draws in a server's tables, in place of what their clients ask for.
struct SamplerChoice {
  std::string name;  // empty: as the clients ask
  std::map<std::string, double> options;
};

struct ServerOptions {
  std::vector<std::string> listen;
  Poll poll = Poll::adaptive;
  uint64_t memory_bytes = 0;  // for all tables together; 0: 80% of the machine's
  SamplerChoice sampler{};
  std::string version{};  // what the statistics call this server's version
  // Keeps keys, links and priorities, and of the rows only the newest, on their way to clients that
  // mirror its tables. What needs rows is refused.
  bool index_only = false;
  // Those of the server and its clients; null: sessions are not sealed.
  std::shared_ptr<KeyStore> keys{};
  // For a server that is one of several: made by make_shards().
  std::shared_ptr<Shards> shards{};
  uint32_t shard = 0;
  // A folder where the server keeps its state (make_shards() opens it); empty: nowhere.
  std::string state_folder{};
  bool read_state_only = false;  // nothing is written there
  uint64_t durability_ns = 1'000'000'000;
  std::shared_ptr<StateFolder> state{};
  Limits limits{};
};

class Server : private RequestHandler {
 public:
  explicit Server(const ServerOptions& options);  // throws Error(transport, config)
  ~Server() override;

  // Keys grow over restarts: the epoch counts minutes, and 16 bits of them take 45 days to come
  // round.
  static uint16_t epoch_now();

  // What is kept in options.state, as which it goes on; once, before it runs. Another thread may be
  // in tell_loading() meanwhile, nothing else. Throws Error(config).
  void recover(const ServerOptions& options, ReadProgress& progress);
  // Answers the clients that come: the server is doing that, and opens no session (empty: it does).
  void tell_loading(const std::string& what);

  std::vector<std::string> addresses() const;  // as clients type them, ports resolved
  void run();
  void stop();
  // Lets the loop try waiting requests again: another shard has changed what they wait for.
  void retry();
  bool poll_once();  // one round without waiting; false when there was nothing to do
  // Between two rounds: sleeps until frames come, a timer is due, or stop() is called.
  void wait();
  // The table of that name, for the thread that calls poll_once(). Throws Error(unknown_table).
  Table& table(std::string_view name);
  const std::shared_ptr<Shards>& shards() const { return shards_; }
  // From any thread: while another one is in run(), that one answers between two rounds.
  Metrics read_metrics();
  // What was found damaged of the state so far, and what the disk refuses at present (from any
  // thread; empty: nothing).
  std::vector<std::string> state_notes() const {
    const std::lock_guard lock(readers_mutex_);
    return state_notes_;
  }
  // Rows of an earlier life whose columns are not there yet: for the loop's thread.
  uint64_t rows_to_load() const { return loader_ ? loader_->rows_to_come() : 0; }
  std::string state_trouble() const { return keeper_ ? keeper_->trouble() : ""; }
  // In place of the keys that it began with, and for its other shards, too; soon, sessions of keys
  // that are gone end. From any thread. Throws Error(config) where it began without.
  void set_keys(KeyRing ring);

 private:
  uint16_t handle(Peer& peer, Slot& slot, std::span<const std::byte> body) override;
  void retry_waiting() override;
  void ended(Peer& peer) override;

  // One request each, in a file of that name. A handler that refuses calls refuse().
#define DRLNET_OPERATION(name, lane, role) \
  uint16_t name(Peer& peer, Slot& slot, std::span<const std::byte> body);
#include "wire/operations.def"
#undef DRLNET_OPERATION

  // stats.cc
  void measure(Metrics& metrics);
  using Latency = std::array<HistogramReading, kOperations>;  // as clients report it
  static void add_latency(const Metrics& report, Latency& latency);
  void remember_report(const Peer& peer);
  uint16_t refuse_beyond(Limit limit, Slot& slot, std::string_view cause, std::string_view remedy);
  void forget_report(uint64_t client);
  void measure_latency(Metrics& metrics);
  void answer_readers();

  // The table, or nullptr with the slot refused.
  OpenTable* open_table_for(uint32_t number, Slot& slot);
  Table* table_for(uint32_t number, Slot& slot);
  static uint16_t refuse(Slot& slot, Status status, std::string_view cause,
                         std::string_view remedy);
  static uint16_t refuse(Slot& slot, const Error& error) {
    return refuse(slot, error.status(), error.cause(), error.remedy());
  }
  void run_again(const Waiter& waiter);
  void retry_followers();  // follow.cc
  uint16_t wait_for_columns(const Peer& peer, const Slot& slot, uint32_t table);
  void choose_sampler(TableSpec& spec) const;         // the server's, where it has one
  void require_within_limits(const TableSpec& spec);  // throws Error
  OpenTable make_table(TableSpec spec);               // throws Error
  // drop_table.cc: all that a drop comes to, and for tables that other shards have dropped.
  void drop(const OpenTable& table);
  void follow_drops();
  bool refused_without_rows(Slot& slot) const;
  // keep_state.cc
  bool recover_tables(Recovery& recovery, std::vector<LateTable>& late);
  void note_given_up(const SavedTable& saved);
  bool load_columns();
  void keep_state(uint64_t now_ns);
  void begin_cut(uint64_t now_ns, bool last = false);
  void end_cut(const Cut& cut);
  uint16_t run_request(Peer& peer, Slot& slot, std::span<const std::byte> body);
  uint16_t append_waits(Table& table, const Append& append, const Peer& peer, const Slot& slot);
  void note_durability(AppendResult& result) const;
  void finish_state();
  static bool refused_as_too_large(const Table& table, uint32_t batch, bool by_reference,
                                   Slot& slot);
  uint64_t params_version() const;
  uint64_t own_params_version() const { return params_ ? params_->version : 0; }
  uint64_t last_params_version() const { return std::max(own_params_version(), params_passed_); }
  void make_publisher(const Peer& peer);
  bool publisher_is_silent();
  uint64_t answering_heard_ns();
  void keep_house(uint64_t now_ns);
  void loop();

  Poll poll_;
  uint64_t memory_limit_;
  SamplerChoice sampler_;
  bool index_only_;
  std::string version_;
  std::shared_ptr<KeyStore> keys_;
  std::shared_ptr<Shards> shards_;  // null: the server is one alone
  uint32_t shard_;
  uint64_t memory_used_ = 0;
  uint16_t epoch_;
  Sessions sessions_;
  std::unique_ptr<Keeper> keeper_;     // null: the state is kept nowhere
  std::unique_ptr<RowLoader> loader_;  // null: all columns of rows are there
  std::vector<std::string> state_notes_;
  bool recovered_ = false;    // the state of an earlier life of this server
  uint64_t blobs_saved_ = 0;  // those of later versions are in no cut
  Tables tables_;
  // Whose request waits for the row behind that head, or for all columns. Few: learners.
  struct Follower {
    uint32_t session;
    Lane lane;
    uint32_t table;
    uint64_t head;
  };
  std::vector<Follower> followers_;
  std::vector<Waiter> refused_;                      // their table was dropped: to run once more
  std::vector<std::span<const std::byte>> columns_;  // of the append in hand
  std::vector<uint64_t> changed_keys_;               // scratch of new_priorities
  std::vector<float> changed_priorities_;
  std::shared_ptr<const Params> params_;
  // Versions of earlier lives, lost ones too; and those that no later life gives to other params.
  uint64_t params_passed_ = 0, params_reserved_ = ~uint64_t{0};
  // The client that publishes, until its session ends, another takes over, or another publishes
  // when this one has been silent, killed perhaps. 0: none.
  static constexpr uint64_t kPublisherSilenceNs = 3'000'000'000;
  uint64_t publisher_ = 0;
  std::string publisher_name_;
  std::vector<std::byte> staged_params_;  // of the publish in progress
  Blobs blobs_;
  Questions questions_;
  uint64_t publishes_refused_ = 0, publishers_replaced_ = 0;
  uint64_t started_ns_;
  uint64_t next_expiry_ns_ = 0;
  uint64_t polls_ = 0, waits_ = 0;
  bool work_left_ = false;  // some table has more to do when no client waits
  bool insecure_ = false;   // no keys, and other machines can reach us
  std::vector<pollfd> poll_fds_;
  // By listener: of clients that are gone. Those that went last are known one by one: a client that
  // comes back reports again what it had.
  std::vector<Latency> ended_latency_;
  struct Ended {
    uint64_t client;
    uint16_t listener;
    Latency latency;
    uint64_t bytes;
  };
  std::deque<Ended> ended_;
  uint64_t ended_bytes_ = 0;   // of all of them: limits().report_bytes at most
  uint64_t report_bytes_ = 0;  // of the reports of those that are there
  // What other threads ask the loop for: all that it looks at in a round.
  enum Request : uint32_t { kStop = 1, kRead = 2, kRetry = 4 };
  std::atomic<uint32_t> requests_{0};
  WakeFd wake_fd_;
  mutable std::mutex readers_mutex_;  // and of state_notes_
  std::condition_variable answered_;
  std::vector<std::optional<Metrics>*> readers_;  // that wait for the loop
  bool looping_ = false;                          // a thread is in run()
};

}  // namespace drlnet
