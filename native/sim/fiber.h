// A stack of its own for a piece of code that goes on where it stopped. Threading: one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "world.h"

namespace drlnet::sim {

class Fiber : public std::enable_shared_from_this<Fiber> {
 public:
  Fiber(std::shared_ptr<Process> process, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  Process& process() { return *process_; }
  bool ended() const { return ended_; }
  void go_on();  // until it stops or ends
  void stop();   // called by the code that runs on it

  // While it sleeps.
  std::vector<int> descriptors;
  uint64_t until_ns = 0;  // on its process's clock
  uint64_t sleeps = 0;    // an alarm of an earlier sleep does nothing

 private:
  // What the C++ runtime keeps of exceptions under way: of a thread, so of us all.
  struct Exceptions {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };

  struct Stack {
    const void* bottom = nullptr;
    size_t bytes = 0;
    void* frames = nullptr;  // that the sanitizer moved to the heap
  };

  static void enter(unsigned low, unsigned high);
  void run();
  void swap_exceptions();
  void free_stack();
  static void leave(Stack& from, const Stack& to, bool for_good = false);
  static void arrive(Stack& on, Stack* from = nullptr);

  std::shared_ptr<Process> process_;
  std::function<void()> body_;
  std::byte* stack_;
  ucontext_t here_{}, back_{};
  Stack own_, callers_;  // told to the address sanitizer
  Exceptions exceptions_;
  bool ended_ = false;
};

}  // namespace drlnet::sim
