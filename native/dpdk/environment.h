// DPDK's environment layer (EAL): one in a process, started when the first port is asked for, on a
// thread of its own, so that no other thread's CPU affinity is narrowed. Control work (attaching,
// starting and closing ports) runs on that thread; bursts run on their callers'.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace drlnet::dpdk {

class Environment {
 public:
  // Starts it when it is not there. pci: the address of the device it is started for, empty for
  // virtual ones, which leave the PCI bus alone. Throws Error(transport).
  static Environment& get(const std::string& pci = {});

  // Runs the job on the environment's thread and waits; what it throws is thrown here.
  void run(const std::function<void()>& job);
  // Returns once the environment's interrupt thread is through with what it has begun.
  void settle_interrupts();
  bool hugepages() const { return hugepages_; }

 private:
  explicit Environment(const std::string& pci);
  void serve(const std::string& pci);
  void start(const std::string& pci);

  bool hugepages_ = false;
  std::mutex mutex_, callers_;
  std::condition_variable changed_;
  const std::function<void()>* job_ = nullptr;
  std::exception_ptr thrown_;
  bool finished_ = false;
  std::thread thread_;
};

// Gives the calling thread a number of DPDK's own, so that its packet buffers come from a cache of
// its own; given back when the thread ends. Cheap when it has one.
void register_this_thread();

// What DPDK logged last, on one line: a cause for errors.
std::string last_log();

}  // namespace drlnet::dpdk
