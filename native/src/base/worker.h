// A thread of the server's own, in the world that it runs in: world.cc defines it.
#pragma once

#include <functional>
#include <memory>

namespace drlnet {

// Runs beside the thread that makes it, which waits for its end in the destructor. Each waits for
// the other in nothing but sleep_on(), and holds no mutex over what may wait.
class Worker {
 public:
  explicit Worker(std::function<void()> body);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

 private:
  struct Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace drlnet
