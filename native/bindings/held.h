// What Python does with an object of ours and C++ never would: shares it among threads that the
// object does not bear, takes it into a forked process, ends the interpreter while a thread is in
// one of its calls.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"

namespace drlnet {

// The lock of an interpreter that is ending goes to no daemon thread any more: Python ends the
// thread that asks, by an exception that no destructor lets pass. Such a thread stays here instead,
// until its process ends.
template <typename Take>
auto take_interpreter(Take take) {
  try {
    return take();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// Without the interpreter's lock for as long as this lives.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  ~Unlocked() {
    take_interpreter([this] { PyEval_RestoreThread(thread_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* thread_;
};

// With it, in a thread that may have given it away.
class Locked {
 public:
  Locked() : state_(take_interpreter([] { return PyGILState_Ensure(); })) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

// How often the processes that led to this one were forked since the module was loaded.
inline std::atomic<uint64_t> forks = 0;
inline void count_forks() {
  pthread_atfork(nullptr, nullptr, [] { ++forks; });
}

// How many threads may be in calls of an object at once.
enum class Callers { one, any };

// What Python holds: the object, for as long as a call uses it. In a forked process the object's
// own threads are gone and its session belongs to the parent: there it is neither used nor ended.
template <typename T, Callers callers>
class Held {
 public:
  // name: with its article, in errors.
  Held(std::unique_ptr<T> object, const char* name) : object_(std::move(object)), name_(name) {}
  ~Held() {
    if (forks_ != forks) static_cast<void>(object_.release());
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  class Use {
   public:
    explicit Use(Held& held) : held_(held) {}
    ~Use() { held_.used_.store(false, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    T& operator*() const { return *held_.object_; }
    T* operator->() const { return held_.object_.get(); }

   private:
    Held& held_;
  };

  // Throws Error(config) in a forked process, and while another thread's call uses it.
  Use use() {
    if (forks_ != forks) {
      throw Error(Status::config,
                  std::string(name_) + " that the parent of this forked process has opened",
                  "open a client in each process, or start processes by spawn, not by fork");
    }
    if (callers == Callers::one && used_.exchange(true, std::memory_order_acquire)) {
      throw Error(Status::config, std::string(name_) + " is used by two threads at once",
                  "give each thread one of its own, or let the threads take turns with a lock");
    }
    return Use(*this);
  }

 private:
  std::unique_ptr<T> object_;
  const char* name_;
  const uint64_t forks_ = forks;
  std::atomic<bool> used_ = false;
};

// A method of it, as Python calls it: without the interpreter's lock.
template <typename T, Callers callers, typename Result, typename... Arguments>
auto unlocked(Result (T::*method)(Arguments...)) {
  return [method](Held<T, callers>& held, Arguments... arguments) {
    const auto object = held.use();
    const Unlocked unlocked;
    return ((*object).*method)(arguments...);
  };
}

}  // namespace drlnet
