// A client that writes rows, as the oracle knows them.
#pragma once

#include <vector>

#include "calls.h"
#include "client/writer.h"

namespace drlnet::sim {

class Rows {
 public:
  Rows(Run& run, const ClientSettings& settings)
      : run_(run), settings_(settings), random_(settings.seed) {}

  // Writes its rounds; false where it wants to go on in another session.
  bool work(Session& session);
  // Writes, fetches params and reports until it is time to leave; then it leaves.
  bool act(Session& session);

 private:
  StreamWriter begin(Session& session);
  void take_streams(Session& session);
  bool resume(Session& session);
  void append(StreamWriter& writer);
  void flush(StreamWriter& writer);
  void leave(Session& session, StreamWriter& writer);

  Run& run_;
  const ClientSettings& settings_;
  Random random_;
  uint64_t lineage_ = 0, params_version_ = 0;
  uint64_t since_ns_ = 0;  // when the first row was appended that is not acknowledged; 0: all are
  uint32_t round_ = 0;
  std::vector<Lease> leases_;
};

}  // namespace drlnet::sim
