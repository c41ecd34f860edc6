// Errors of set-up and control. The data path returns a Status and never throws.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace drlnet {

// The numbers travel in replies: append new ones, never renumber.
enum class Status : uint16_t {
  ok = 0,
  config = 1,              // settings that cannot work: remedy names the setting
  transport = 2,           // no route, port in use, no such address
  protocol = 3,            // versions or bytes that do not fit together
  timeout = 4,             // a deadline passed: cause says what was waited for
  table_mismatch = 5,      // columns, item or settings disagree with the table's
  unknown_table = 6,       // no table of that name or number
  sample_expired = 7,      // a pull came after its rows were overwritten
  stream_gap = 8,          // an append did not start at the next expected step
  unknown_lease = 9,       // the stream's lease is not (or no longer) held
  bad_priority = 10,       // NaN, infinite or negative
  server_full = 11,        // no room for another peer, table or stream
  session_lost = 12,       // the server restarted: what it held is gone
  bad_request = 13,        // a request that a correct client does not send
  another_publisher = 14,  // another client publishes params at this server
  table_dropped = 15,      // a client has dropped the table
  forbidden = 16,          // the client's key does not allow it, or is none that the server knows
  loading = 17,            // the server reads its state: it opens no session before it has
  state_damaged = 18,      // of a state on disk too little is as it was written to go on from
};

std::string_view status_name(Status status);

// One line of cause, one of remedy.
class Error : public std::exception {
 public:
  Error(Status status, std::string cause, std::string remedy)
      : status_(status), cause_(std::move(cause)), remedy_(std::move(remedy)) {
    text_ = cause_ + (remedy_.empty() ? "" : "\n" + remedy_);
  }
  const char* what() const noexcept override { return text_.c_str(); }
  Status status() const { return status_; }
  const std::string& cause() const { return cause_; }
  const std::string& remedy() const { return remedy_; }

 private:
  Status status_;
  std::string cause_, remedy_, text_;
};

}  // namespace drlnet
