// Batches drawn ahead of their use, into buffers of the caller's.
// Threading: one thread.
#pragma once

#include "client/client.h"

namespace drlnet {

class BatchStream {
 public:
  BatchStream() = default;
  virtual ~BatchStream() = default;
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // The index of the buffer that holds the next batch; it is ours again at the following call.
  // A batch whose rows were overwritten before they had all come is passed over.
  virtual size_t next(Deadline deadline) = 0;
};

}  // namespace drlnet
