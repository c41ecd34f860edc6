// The questions that clients ask, on their way to the one client that answers, and the answers on
// their way back. The server reads neither. Threading: one thread. Nothing here waits.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "session/server/peer.h"
#include "wire/messages.h"

namespace drlnet {

class Questions {
 public:
  enum class State : uint8_t {
    idle,      // nothing is asked
    waiting,   // in line
    taken,     // with the client that answers
    answered,  // the answer is here
    given_up,  // no answer came in time
  };
  struct Question {
    uint64_t client = 0, request = 0;
    uint32_t connection = 0;
    State state = State::idle;
    std::span<const std::byte> body;  // in its slot, for as long as it is waiting or taken
    Bytes answer;
    uint64_t patience_ns = 0, asked_ns = 0, answered_ns = 0;
  };

  // A client asks: its first question, or its next. body: where it lies once it waits.
  void ask(const Peer& peer, const Slot& slot, std::span<const std::byte> body,
           uint64_t patience_ns, uint64_t now_ns);
  // What the client asked last, or null.
  Question* find(uint64_t client);

  // The client that answers from now on: what the one before it did not answer is in line again.
  void begin(const Peer& peer);
  bool answers(const Peer& peer) const { return peer.client == client_; }
  uint64_t client() const { return client_; }  // that answers; 0: none
  // Takes an answer; one that is not waited for any more is dropped.
  void answer(const Asked& asked, std::span<const std::byte> bytes, uint64_t now_ns);
  // Writes what waits. False, having written nothing: nothing does, no time is up, and the reply is
  // not wanted at once.
  bool take(Bytes& reply, bool at_once);
  // The answering client's request waits.
  void wait(const Peer& peer);

  void ended(const Peer& peer);
  // About once a second. heard_ns: when the answering client was last heard. True when requests are
  // to be tried again.
  bool keep_house(uint64_t heard_ns, uint64_t now_ns);
  // A session whose request in the update lane may go on, each once.
  std::optional<uint32_t> next_ready();

  void read_metrics(Metrics& metrics, uint64_t now_ns) const;

 private:
  void to_line(Question& question);

  std::vector<Question> questions_;  // of each client that has asked and is there
  std::deque<uint64_t> line_;        // clients whose questions wait, in order of arrival
  std::vector<uint64_t> gone_;       // clients that have asked and are not there any more
  std::vector<uint32_t> ready_;      // sessions
  uint64_t client_ = 0;
  uint32_t connection_ = 0;
  bool waits_ = false;    // its request does
  bool time_up_ = false;  // and has waited long enough
  uint64_t asked_ = 0, batches_ = 0, given_up_ = 0;
};

}  // namespace drlnet
