// A client of a replay server: calls that wait with a deadline, on one session.
// Threading: all methods may be called from several threads; one lock serialises them, held while
// the session makes progress and never while sleeping. A writer or stream belongs to one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/poll.h"
#include "base/wake_fd.h"
#include "session/client/connection.h"
#include "spec/sample_layout.h"
#include "wire/codec.h"
#include "wire/directory.h"
#include "wire/messages.h"

namespace drlnet {

struct ClientOptions {
  std::string address;
  std::string name = "client";
  uint64_t timeout_ns = 10'000'000'000;  // of control calls
  Poll poll = Poll::adaptive;
  // The session is sealed with it, but within this machine's memory; none: it is not.
  std::optional<ClientKey> key{};
  bool first_shard_only = false;  // of a ShardedClient: a session with that one alone
  // Its calls wait on past their deadlines while the server says that it reads its state.
  bool patient = false;
};

// Items that were created, or whose priority was set, with what the server stores for them: 0 where
// the item is gone. All with keys under `oldest` are gone.
struct PriorityChanges {
  uint64_t next = 0;  // where the next ones begin
  uint64_t oldest = 0, head = 0;
  std::vector<uint64_t> keys;
  std::vector<float> priorities;
};

// What a client that answers questions is given: those that wait, and which clients have gone.
struct AskedQuestions {
  std::vector<uint64_t> gone;  // clients that have asked, and whose sessions have ended
  std::vector<std::pair<Asked, std::vector<std::byte>>> questions;
};

// Absolute, on base/world.h's clock.
using Deadline = uint64_t;
Deadline deadline_in(uint64_t ns);
// The clock of deadlines: it stands still while the process is stopped (Ctrl-Z), as calls under way
// find afterwards.
uint64_t waking_ns();

class Client {
 public:
  using Fill = FunctionRef<void(std::vector<std::byte>&)>;
  using Visit = FunctionRef<void(Status, std::span<const std::byte>)>;

  // Connects and opens the session, or throws Error(transport, protocol, timeout, loading).
  // interrupt: called without the lock about every 50 ms of waiting; throws to give up (Ctrl-C).
  // run_server: in one process and one thread with the server, a round of it (true: it was busy).
  explicit Client(const ClientOptions& options, std::function<void()> interrupt = {},
                  std::function<bool()> run_server = {});
  // The same over a transport that is there already; options.address only names it in errors.
  Client(Connected connected, const ClientOptions& options, std::function<void()> interrupt = {},
         std::function<bool()> run_server = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void ping(std::span<const std::byte> payload = {});
  uint64_t ping_ns(std::span<const std::byte> payload = {});  // its round trip
  uint32_t open_table(const TableSpec& spec) { return open(spec).table; }
  OpenTableReply open(const TableSpec& spec);
  std::vector<TableSpec> list_tables();
  void empty_table(uint32_t table) {
    call(Operation::empty_table, [&](auto& body) { ByteWriter(body).put(table); }, [](auto) {});
  }
  // One that was dropped already stays so.
  void drop_table(uint32_t table) {
    call(Operation::drop_table, [&](auto& body) { ByteWriter(body).put(table); }, [](auto) {});
  }
  std::vector<Lease> lease(uint32_t table, uint32_t count);
  std::vector<Lease> resume(uint32_t table, std::span<const StreamName> names);
  void release(uint32_t table, std::span<const StreamName> names);
  // The destination must be of the layout's total bytes for the batch. A sample that ran into its
  // deadline stays asked for, and answers the next call of the same kind: asking again and again
  // while the limiter holds draws back costs the server nothing.
  void sample(uint32_t table, uint32_t batch, const Destination& destination, Deadline deadline);
  // The items of these keys, where a sample's drawn ones would be, with their stored priorities for
  // probabilities. One that is not held has the key kNoKey, priority 0, length 0 and rows of zeros.
  // The destination must be of the layout's total bytes for these keys.
  void read_items(uint32_t table, std::span<const uint64_t> keys, const Destination& destination,
                  Deadline deadline);
  // Replaces `changes` by what came after it; true when there is still more to ask for.
  bool new_priorities(uint32_t table, PriorityChanges& changes);
  UpdateResult update_priorities(uint32_t table, std::span<const uint64_t> keys,
                                 std::span<const float> priorities);
  // Does not wait for the answer; an error of an earlier one is thrown by a later call.
  void update_priorities_async(uint32_t table, std::span<const uint64_t> keys,
                               std::span<const float> priorities);
  // Throws Error(another_publisher) while another client publishes.
  uint64_t publish(std::span<const std::byte> params);
  // Publishing, from whichever client does.
  void take_over() {
    call(Operation::take_over, [](auto&) {}, [](auto) {});
  }
  // Version 0 when there is none newer; else bytes holds it.
  uint64_t fetch(uint64_t newer_than, std::vector<std::byte>& bytes);
  // Keeps a named blob at the server, in place of the one that it had; returns its version.
  uint64_t put_blob(std::string_view name, std::span<const std::byte> blob);
  // Version 0 when there is none newer of that name; else bytes holds it.
  uint64_t get_blob(std::string_view name, uint64_t newer_than, std::vector<std::byte>& bytes);
  DirectoryReply directory(const DirectoryRequest& request = {});
  // The answer to a question. Waits while a client that answers is heard, and patience_ns without
  // one: then it throws Error(timeout).
  std::vector<std::byte> ask(std::span<const std::byte> question, uint64_t patience_ns);
  // Gives answers to questions that it was given, and takes those that wait by then; none after a
  // second or two. flags: kAnswersFromNow (the client that did gets Error(config)),
  // kQuestionsAtOnce.
  AskedQuestions answer(std::span<const std::pair<Asked, std::span<const std::byte>>> answers,
                        uint32_t flags = 0);
  Metrics stats();
  // Puts these beside the session's own figures (own_metrics()) into the server's statistics.
  void report(const Metrics& metrics);
  Metrics own_metrics();
  // For control calls, from now on.
  void set_timeout(uint64_t timeout_ns) { timeout_ns_ = timeout_ns; }
  const std::string& address() const { return options_.address; }
  // What the server's first answer said of it. A server that is alone is the first of one shard.
  uint64_t lineage() const { return connection_.lineage(); }
  // See Connection. Each takes the lock.
  uint64_t restarts() {
    const Lock lock = take_lock();
    return connection_.restarts();
  }
  uint64_t reconnects() {
    const Lock lock = take_lock();
    return connection_.reconnects();
  }
  uint32_t shard() const { return connection_.shard(); }
  uint32_t shards() const { return connection_.shards(); }

  // For writer and sample stream. Each takes the lock.
  // Begins a call when its lane has room (waits for it until the deadline), fills and submits it.
  CallId start(Operation operation, Deadline deadline, Fill fill,
               const Destination& destination = {});
  // The reply goes into memory of the call's own, and what it was to go to is the caller's again.
  void detach(CallId id);
  bool finished(CallId id);
  void wait(CallId id, Deadline deadline);
  // False when the server still holds the request after patience_ns, as it may for any time: that
  // does not fail it.
  bool wait(CallId id, Deadline deadline, uint64_t patience_ns);
  // For room in its lane, likewise: others that share the session may have all of it.
  bool wait_for_room(Operation operation, Deadline deadline, uint64_t patience_ns);
  // Waits, and throws the server's error if it refused; else visits the reply, then frees the call.
  void collect(CallId id, Deadline deadline, Visit visit);
  // The same; the request's body is the caller's to keep.
  void collect(CallId id, Deadline deadline, Visit visit, std::vector<std::byte>& body);
  void abandon(CallId id);
  // A thread that keeps the session moving between calls: prefetched replies of that many bytes
  // arrive meanwhile. Those that come whole unasked lie ready until the next call; to wake up for
  // each would only take the caller's core, so it looks after lost frames alone.
  void keep_moving(size_t reply_bytes);

 private:
  using Lock = std::unique_lock<std::mutex>;
  // Every method begins with it. A thread that holds the lock and spins gives way to those that
  // wait here.
  Lock take_lock();
  void give_way(Lock& lock);
  void open();
  // Runs the session until the condition holds. what: named in the error at the deadline.
  void run_until(Lock& lock, Deadline deadline, FunctionRef<bool()> condition,
                 FunctionRef<std::string()> waited_for);
  bool waits_for_state(uint64_t now_ns) const;
  void look_for_stop(uint64_t looked, uint64_t now_ns) const;
  // for_answer: for one that another thread may take, not just for any frame.
  void sleep(Lock& lock, uint64_t until_ns, bool for_answer);
  void hand_over_watch();
  void tell_others();
  void wake_watcher();
  CallId start(Lock& lock, uint64_t now, Operation operation, Deadline deadline, Fill fill,
               const Destination& destination);
  void wait(Lock& lock, CallId id, Deadline deadline);
  void collect(Lock& lock, CallId id, Deadline deadline, Visit visit,
               std::vector<std::byte>* body = nullptr);
  void call(Operation operation, Fill fill, FunctionRef<void(std::span<const std::byte>)> visit);
  std::string explain(const Call& call) const;
  bool held(const Call& call) const;
  // call() without a deadline while the server says that it holds the request.
  void call_held(Operation operation, Fill fill,
                 FunctionRef<void(std::span<const std::byte>)> visit);
  void collect_items(Lock& lock, CallId id, const Destination& destination, Deadline deadline);
  // From and to the bookkeeping below.
  void keep_late_sample(uint32_t table, uint32_t batch, CallId id);
  std::optional<CallId> take_late_sample(uint32_t table, uint32_t batch);
  std::optional<CallId> take_update(bool even_unfinished);  // takes the lock
  void background();

  const ClientOptions options_;
  std::atomic<uint64_t> timeout_ns_;
  std::function<void()> interrupt_;
  std::function<bool()> run_server_;
  std::mutex mutex_;
  std::atomic<int> wanted_{0};  // threads that wait for the lock
  Connection connection_;
  std::vector<CallId> updates_;  // not yet looked at
  struct LateSample {
    uint32_t table, batch;
    CallId id;
  };
  std::vector<LateSample> late_samples_;
  // One thread at a time watches the transport; it is woken, and the others told, when frames came
  // in: one thread may take another's answer.
  WakeFd wake_fd_;
  std::condition_variable moved_;
  bool watching_ = false, woken_ = false;
  bool watcher_waits_ = false;  // for an answer: to be told what others receive
  bool opened_ = false;         // from then on it is patient, if it is
  bool stopping_ = false;
  bool follows_ = false;           // the mover: what comes, not just timers
  bool publishing_ = false;        // a thread is
  std::condition_variable begun_;  // following, or stopping
  std::thread mover_;
};

// Throws Error(config, bad_priority) for what no server would take.
void check_update(std::span<const uint64_t> keys, std::span<const float> priorities);
// Throws the error that a reply with this status holds.
void throw_if_refused(Status status, std::span<const std::byte> reply);
// What a reply begins with. Throws Error(protocol) where it is shorter.
template <typename Record>
Record record_of(std::span<const std::byte> reply) {
  ByteReader reader(reply);
  const auto record = reader.get<Record>();
  if (!reader.ok()) {
    throw Error(Status::protocol, "a reply is too short", "install the same drlnet on both sides");
  }
  return record;
}

}  // namespace drlnet
