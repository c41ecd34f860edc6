// What a call waits for, in words.
#include "client/client.h"
#include "spec/wait.h"

namespace drlnet {
namespace {

// Each would have been answered, however long the request is held; fewer may be a stall.
constexpr uint32_t kUnansweredAsks = 6;

}  // namespace

bool Client::held(const Call& call) const {
  const Call& first = connection_.first_of_lane(call);
  const auto reason = static_cast<Wait>(first.wait);
  return first.state == Call::State::pending && first.attempts < kUnansweredAsks &&
         reason != Wait::min_size;
}

std::string Client::explain(const Call& call) const {
  const std::string operation = operation_name(call.operation);
  const Call& first = connection_.first_of_lane(call);
  if (&first != &call && first.state == Call::State::pending) {
    return operation + ": an earlier request of this client: " + explain(first);
  }
  const bool held = call.state == Call::State::pending || call.state == Call::State::accepted;
  if (held && call.attempts >= kUnansweredAsks) {
    return operation + ": the network: the server fell silent while it held the request";
  }
  switch (call.state) {
    case Call::State::pending:
      switch (static_cast<Wait>(call.wait)) {
        case Wait::min_size:
          return operation + ": the limiter: the table has fewer items than min_size";
        case Wait::samples_limit:
          return operation +
                 ": the limiter: draws are ahead of insertions (samples_per_insert, "
                 "max_times_sampled)";
        case Wait::inserts_limit:
          return operation +
                 ": the limiter: insertions are ahead of draws (samples_per_insert, "
                 "max_times_sampled)";
        case Wait::answer:
          return operation + ": the inference role, which has not answered";
        case Wait::rows:
          return operation + ": rows, which no client appends";
        case Wait::disk:
          return operation + ": the server's disk, which has not taken what the answer promises";
        case Wait::state:
          return operation + ": the server, which still reads rows of its state";
        case Wait::questions:
          return operation + ": questions, which no actor asks";
        default:
          return operation + ": the server holds the request";
      }
    case Call::State::accepted:
      return operation + ": the server: it has the request and has not answered";
    default:
      return operation + ": the network: " +
             (call.heard_ns ? "the server fell silent in mid-reply" : "no answer from the server");
  }
}

}  // namespace drlnet
