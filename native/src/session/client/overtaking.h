// Tells loss from reordering, after RACK (RFC 8985): what was sent before something that has come
// since is overtaken, and lost once it has been so for a while. Threading: one thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace drlnet {

class Overtaking {
 public:
  // What was sent there has come. Positions grow in the order of sending.
  void came(uint64_t position) { newest_ = std::max(newest_, position); }
  // To be called before the two below are asked. patience_ns: how long reordering may take.
  void look(uint64_t now_ns, uint64_t patience_ns) {
    if (since_ns_ != 0 && now_ns >= since_ns_ + patience_ns) {
      lost_ = overtaken_;
      since_ns_ = 0;
    }
    if (since_ns_ == 0 && newest_ > lost_) {
      overtaken_ = newest_;
      since_ns_ = now_ns;
    }
    decided_ns_ = since_ns_ + patience_ns;
  }
  bool lost(uint64_t position) const { return position < lost_; }
  // Not lost yet, but so unless it comes until decided_ns().
  bool overtaken(uint64_t position) const { return since_ns_ != 0 && position < overtaken_; }
  uint64_t decided_ns() const { return decided_ns_; }

 private:
  uint64_t newest_ = 0, overtaken_ = 0, lost_ = 0;
  uint64_t since_ns_ = 0, decided_ns_ = 0;
};

}  // namespace drlnet
