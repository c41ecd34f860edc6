// A stream of batches of one session: `depth` requests are always under way, each into a buffer of
// the caller's. Threading: one thread; the client's background thread receives meanwhile.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "client/batch_stream.h"

namespace drlnet {

class SampleStream final : public BatchStream {
 public:
  // buffers: depth + 1 of them, each of the layout's total bytes for `batch`. Their memory must
  // outlive us.
  SampleStream(Client& client, uint32_t table, uint32_t batch, std::vector<Destination> buffers);
  ~SampleStream() override;

  size_t next(Deadline deadline) override;
  uint64_t expired() const { return expired_; }

 private:
  struct Ahead {
    CallId id;
    size_t buffer;
  };
  void ask(size_t buffer, Deadline deadline);

  Client& client_;
  uint32_t table_, batch_;
  std::vector<Destination> buffers_;
  std::deque<Ahead> ahead_;
  std::vector<size_t> idle_;  // buffers without a request
  uint64_t expired_ = 0;
};

}  // namespace drlnet
