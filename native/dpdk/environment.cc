#include "environment.h"

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_version.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"

namespace drlnet::dpdk {
namespace {

// All packet buffers of a process, when there are no hugepages to take them from; touched as used.
constexpr int kMemoryMiB = 512;
constexpr uint64_t kMinHugepages = 64;  // of 2 MiB: as much as ports of one process take at most

// DPDK's log, kept instead of printed: the last lines explain a failure.
class Log {
 public:
  Log() : stream_(open()) {
    if (stream_ != nullptr) rte_openlog_stream(stream_);
    rte_log_set_global_level(RTE_LOG_NOTICE);
  }
  std::string last() {
    std::lock_guard lock(mutex_);
    while (!text_.empty() && text_.back() == '\n') text_.pop_back();
    const size_t begin = text_.rfind('\n');
    return begin == std::string::npos ? text_ : text_.substr(begin + 1);
  }

 private:
  FILE* open() {
    cookie_io_functions_t functions{};
    functions.write = [](void* log, const char* data, size_t size) {
      static_cast<Log*>(log)->add({data, size});
      return static_cast<ssize_t>(size);
    };
    FILE* stream = fopencookie(this, "w", functions);
    if (stream != nullptr) setvbuf(stream, nullptr, _IONBF, 0);
    return stream;
  }
  void add(std::string_view line) {
    constexpr size_t kKept = 4096;
    if (const char* wanted = std::getenv("DRLNET_DPDK_LOG"); wanted != nullptr) {
      std::fprintf(stderr, "%.*s", static_cast<int>(line.size()), line.data());
    }
    std::lock_guard lock(mutex_);
    text_ += line;
    if (text_.size() > 2 * kKept) text_.erase(0, text_.size() - kKept);
  }

  std::mutex mutex_;
  std::string text_;
  FILE* stream_;
};

Log& the_log() {
  static auto* log = new Log;  // DPDK's threads may log until the process ends
  return *log;
}

bool hugepages_free() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  uint64_t count = 0;
  return file >> count && count >= kMinHugepages;
}

// "(0,1)": every CPU that this process may use, for the environment's one logical core.
std::string usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    list += list.empty() ? '(' : ',';
    list += std::to_string(cpu);
  }
  return list += ')';
}

std::vector<std::string> arguments(const std::string& pci, bool hugepages) {
  std::vector<std::string> list = {"drlnet", "--no-telemetry", "--lcores=0@" + usable_cpus()};
  if (hugepages) {
    // Memory of this process alone, in few files: vhost passes each file to its peer.
    list.insert(list.end(), {"--in-memory", "--single-file-segments"});
  } else {
    list.insert(list.end(), {"--no-huge", "--no-shconf", "-m", std::to_string(kMemoryMiB)});
  }
  if (pci.empty()) {
    list.insert(list.end(), {"--no-pci", "--iova-mode=va"});
  } else {
    list.insert(list.end(), {"-a", pci});
  }
  // DPDK by itself leaves AVX-512 aside; drivers ask the processor as well.
  constexpr std::string_view kVectors = "--force-max-simd-bitwidth=";
  bool vectors_given = false;
  if (const char* more = std::getenv("DRLNET_EAL"); more != nullptr) {
    std::istringstream words(more);
    for (std::string word; words >> word;) {
      vectors_given |= word.starts_with(kVectors);  // an option given twice is refused
      list.push_back(word);
    }
  }
  if (!vectors_given) list.push_back(std::string(kVectors) + "512");
  return list;
}

// What DPDK prints beside its log while it starts: a hundred lines of help for a wrong argument.
// Kept from the user's terminal, unless that help or the log was asked for.
class Quiet {
 public:
  explicit Quiet(const std::vector<std::string>& list) {
    const bool help = std::ranges::any_of(
        list, [](const std::string& word) { return word == "--help" || word == "-h"; });
    if (help || std::getenv("DRLNET_DPDK_LOG") != nullptr) return;
    said_ = open_memstream(&text_, &size_);
    if (said_ == nullptr) return;
    // The C library's streams, not the descriptors: Python's output goes on.
    saved_out_ = std::exchange(stdout, said_);
    saved_err_ = std::exchange(stderr, said_);
  }
  ~Quiet() {
    if (said_ == nullptr) return;
    stdout = saved_out_;
    stderr = saved_err_;
    std::fclose(said_);
    std::free(text_);
  }
  Quiet(const Quiet&) = delete;

  // The argument that was refused, in the words of the C library; else nothing.
  std::string refusal() const {
    if (said_ == nullptr) return {};
    std::fflush(said_);
    const std::string said(text_, size_);
    const size_t begin = said.find("drlnet: ");
    return begin == std::string::npos ? ""
                                      : said.substr(begin + 8, said.find('\n', begin) - begin - 8);
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  FILE *said_ = nullptr, *saved_out_ = nullptr, *saved_err_ = nullptr;
};

struct Registration {
  bool held = false;
  ~Registration() {
    if (held) rte_thread_unregister();
  }
};

}  // namespace

Environment& Environment::get(const std::string& pci) {
  static std::mutex mutex;
  static Environment* environment = nullptr;  // for the rest of the process: DPDK cannot restart
  static pid_t owner = 0;
  std::lock_guard lock(mutex);
  if (environment == nullptr) {
    owner = getpid();
    environment = new Environment(pci);
  }
  if (owner != getpid()) {
    throw Error(Status::transport, "DPDK was started before this process was forked",
                "Open dpdk addresses in the child only, or start it with the spawn method.");
  }
  return *environment;
}

Environment::Environment(const std::string& pci) {
  thread_ = std::thread([this, pci] { serve(pci); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_; });
  finished_ = false;
  if (thrown_) {
    lock.unlock();
    thread_.join();
    std::rethrow_exception(thrown_);
  }
}

void Environment::serve(const std::string& pci) {
  std::unique_lock lock(mutex_);
  try {
    start(pci);
  } catch (...) {
    thrown_ = std::current_exception();
  }
  finished_ = true;
  changed_.notify_all();
  if (thrown_) return;
  for (;;) {
    changed_.wait(lock, [&] { return job_ != nullptr; });
    try {
      (*job_)();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    job_ = nullptr;
    finished_ = true;
    changed_.notify_all();
  }
}

void Environment::start(const std::string& pci) {
  the_log();
  // Drivers write to sockets whose other end may have gone.
  const auto previous = signal(SIGPIPE, SIG_IGN);
  if (previous != SIG_DFL && previous != SIG_ERR) signal(SIGPIPE, previous);
  hugepages_ = hugepages_free();
  std::vector<std::string> list = arguments(pci, hugepages_);
  std::vector<char*> pointers;
  for (std::string& argument : list) pointers.push_back(argument.data());
  const Quiet quiet(list);
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) {
    std::string reason = quiet.refusal();
    if (reason.empty()) reason = last_log();
    throw Error(Status::transport,
                std::string("DPDK (") + rte_version() +
                    ") does not start: " + (reason.empty() ? rte_strerror(rte_errno) : reason),
                "Check --eal if you gave it; DRLNET_DPDK_LOG=1 prints what DPDK says.");
  }
}

void Environment::run(const std::function<void()>& job) {
  std::lock_guard one_at_a_time(callers_);
  std::unique_lock lock(mutex_);
  finished_ = false;
  thrown_ = nullptr;
  job_ = &job;
  changed_.notify_all();
  changed_.wait(lock, [&] { return finished_; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Environment::settle_interrupts() {
  // Alarms run on the interrupt thread, one after another with its handlers.
  struct Barrier {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
  } barrier;
  const auto reach = [](void* argument) {
    auto* barrier = static_cast<Barrier*>(argument);
    std::lock_guard lock(barrier->mutex);
    barrier->reached = true;
    barrier->changed.notify_all();
  };
  if (rte_eal_alarm_set(1, reach, &barrier) != 0) return;
  std::unique_lock lock(barrier.mutex);
  barrier.changed.wait(lock, [&] { return barrier.reached; });
}

void register_this_thread() {
  thread_local Registration registration;
  if (registration.held || rte_lcore_id() != LCORE_ID_ANY) return;
  // Without a number (there are 128) it works as well, through the pool's shared part.
  registration.held = rte_thread_register() == 0;
}

std::string last_log() { return the_log().last(); }

}  // namespace drlnet::dpdk
