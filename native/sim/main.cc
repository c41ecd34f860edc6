// drlnet-sim: runs simulated systems, one for each seed, and says which promises they broke.
//
//   drlnet-sim --seeds N [--from SEED] [--jobs J]   N seeds, in J processes at a time
//   drlnet-sim --seed SEED [--faults 0,3] [--trace] one seed, with all or some of its faults
//   --clients N    a crowd of N actors that come, leave and die, in place of a few clients
//   --twice        each seed runs twice, and its two traces must be equal
//   --no-checksums frames bear none: what altered bytes then do must be found
//   --rare N       every branch that is to be taken must be, N times at least in all
//
// Each run is a process of its own: what a run leaves behind, or breaks, touches no other.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

#include "base/assert.h"
#include "keys.h"
#include "scenario.h"
#include "world.h"

namespace drlnet::sim {
namespace {

// Seconds of processor time, and ten times as much of real time: a run takes far less.
constexpr unsigned kPatienceS = 60, kClientsPerS = 10;
constexpr int kShrinkRuns = 200;
constexpr uint64_t kMostClients = 16'000;  // the server's sessions, but for some of others
int g_result = -1;                         // where the child says what came of it

// Branches that thousands of seeds take; a seed alone does not.
constexpr const char* kRare[] = {
    "addresses changed",
    "appends that waited for draws",
    "bits flipped",
    "bits that rotted on disk",
    "blobs fetched",
    "calls failed by a disk",
    "calls ran into their deadlines",
    "calls that ended while a state was read",
    "client altered_frames",
    "client crashes",
    "client duplicate_frames",
    "client probes",
    "client reconnects",
    "client repulls",
    "client retransmissions",
    "client timeouts",
    "clocks that jump",
    "counts of draws known from before a restart",
    "draws that waited for items",
    "draws while rows are read",
    "frames cut off",
    "frames doubled",
    "frames lost to a partition",
    "frames lost",
    "frames to where nothing listens",
    "frames too long for the path",
    "items that an episode's end cut short",
    "looks for clients while a state is read",
    "names lost to a power cut",
    "power cuts",
    "recorded frames refused",
    "recorded frames sent again",
    "records or rows found damaged",
    "requests that a role has no right to",
    "rows beyond an episode",
    "rows evicted",
    "server crashes",
    "servers ended in order",
    "servers that did not answer a first time",
    "sessions lost to a restart",
    "starts that the disk refused",
    "streams of a kept state leased anew",
    "streams resumed with rows not stored",
    "streams resumed",
    "strangers refused",
    "wall clocks that jump",
    "writes cut short by a kill",
    "writes kept over a power cut",
    "writes lost to a power cut",
    "writes refused by a full disk",
    "writes torn by a power cut",
};

struct Options {
  uint64_t seeds = 1, from = 1, rare = 0;
  unsigned jobs = 1;
  bool one = false, twice = false;
  Wanted wanted;
};

struct Result {
  std::string broken;  // empty: nothing
  Outcome outcome;
};

void say(const std::string& text) {
  DRLNET_ASSERT(write(g_result, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

[[noreturn]] void run_child(const Wanted& wanted) {
  const unsigned patience_s = kPatienceS + wanted.clients / kClientsPerS;
  const rlimit limit{patience_s, patience_s + 1};
  DRLNET_ASSERT(setrlimit(RLIMIT_CPU, &limit) == 0);
  alarm(10 * patience_s);
  const Outcome outcome = simulate(wanted);
  std::ostringstream text;
  text << "ended\t" << outcome.hash << '\t' << outcome.events << '\t' << outcome.frames << '\t'
       << outcome.simulated_s << '\t' << outcome.peak_bytes << '\n';
  for (const auto& [name, times] : outcome.marks) text << name << '\t' << times << '\n';
  say(text.str());
  _exit(0);
}

struct Child {
  pid_t pid;
  int pipe;
  uint64_t seed;
};

Child start(Wanted wanted, uint64_t seed) {
  wanted.seed = seed;
  int ends[2];
  DRLNET_ASSERT(pipe(ends) == 0);
  const pid_t pid = fork();
  DRLNET_ASSERT(pid >= 0);
  if (pid == 0) {
    close(ends[0]);
    g_result = ends[1];
    run_child(wanted);
  }
  close(ends[1]);
  return {pid, ends[0], seed};
}

Result finish(const Child& child) {
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(child.pipe, part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(n));
  }
  close(child.pipe);
  int status = 0;
  DRLNET_ASSERT(waitpid(child.pid, &status, 0) == child.pid);
  Result result;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (!line.starts_with("ended\t")) {
    result.broken = line;
    if (WIFSIGNALED(status)) result.broken = strsignal(WTERMSIG(status));
    if (result.broken.empty()) result.broken = "it ended with " + std::to_string(status);
    return result;
  }
  std::istringstream(line.substr(6)) >> result.outcome.hash >> result.outcome.events >>
      result.outcome.frames >> result.outcome.simulated_s >> result.outcome.peak_bytes;
  while (std::getline(lines, line)) {
    const size_t tab = line.find('\t');
    result.outcome.marks[line.substr(0, tab)] = std::stoull(line.substr(tab + 1));
  }
  return result;
}

Result run(const Wanted& wanted, uint64_t seed) { return finish(start(wanted, seed)); }

// Those behind one another as 3-7.
std::string list(const std::set<size_t>& faults) {
  std::string text;
  for (auto at = faults.begin(); at != faults.end();) {
    const size_t first = *at;
    size_t last = first;
    while (++at != faults.end() && *at == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
  }
  return text.empty() ? "none" : text;
}

// Leaves out what is not needed for some promise to break: halves of the faults, then quarters, at
// last one after another.
void shrink(Wanted wanted, uint64_t seed, const std::string& what) {
  wanted.trace = false;
  wanted.seed = seed;
  const std::vector<Fault> faults = faults_of(wanted);
  std::set<size_t> needed;
  if (wanted.only) {
    needed = *wanted.only;
  } else {
    for (size_t i = 0; i < faults.size(); ++i) needed.insert(i);
  }
  std::string text = what;
  int runs = 0;
  for (size_t many = std::bit_floor(needed.size()); many > 0; many /= 2) {
    const std::vector<size_t> left(needed.begin(), needed.end());
    for (size_t at = 0; at < left.size() && runs < kShrinkRuns; at += many, ++runs) {
      wanted.only = needed;
      for (size_t i = at; i < std::min(at + many, left.size()); ++i) wanted.only->erase(left[i]);
      const Result without = run(wanted, seed);
      if (without.broken.empty()) continue;
      needed = *wanted.only;
      text = without.broken;
    }
  }
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), text.c_str());
  for (const size_t fault : needed) std::printf("  %zu: %s\n", fault, faults[fault].text().c_str());
  const std::string clients =
      wanted.clients > 0 ? " --clients " + std::to_string(wanted.clients) : "";
  std::printf("  again: drlnet-sim --seed %llu%s --faults %s%s --trace\n",
              static_cast<unsigned long long>(seed), clients.c_str(), list(needed).c_str(),
              wanted.checked ? "" : " --no-checksums");
  std::fflush(stdout);
}

[[noreturn]] void usage(const std::string& why) {
  std::fprintf(stderr,
               "drlnet-sim: %s\nusage: drlnet-sim (--seeds N [--from SEED] [--jobs J] | --seed "
               "SEED [--faults I,J-K | --faults none] [--trace]) [--clients N] [--twice] "
               "[--rare N] [--no-checksums]\n",
               why.c_str());
  std::exit(2);
}

uint64_t number(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != 0) usage(flag + " takes a number, not '" + text + "'");
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--trace") {
      options.wanted.trace = true;
    } else if (flag == "--twice") {
      options.twice = true;
    } else if (flag == "--no-checksums") {
      options.wanted.checked = false;
    } else if (i + 1 == argc) {
      usage("unknown flag, or one without its value: " + flag);
    } else if (const std::string value = argv[++i]; flag == "--seeds") {
      options.seeds = number(flag, value);
    } else if (flag == "--from") {
      options.from = number(flag, value);
    } else if (flag == "--jobs") {
      options.jobs = static_cast<unsigned>(std::clamp<uint64_t>(number(flag, value), 1, 1024));
    } else if (flag == "--rare") {
      options.rare = number(flag, value);
    } else if (flag == "--clients") {
      const uint64_t clients = number(flag, value);
      if (clients > kMostClients) {
        usage("a server has " + std::to_string(kMostClients) + " actors at most");
      }
      options.wanted.clients = static_cast<uint32_t>(clients);
    } else if (flag == "--seed") {
      options.one = true;
      options.from = number(flag, value);
    } else if (flag == "--faults") {
      options.wanted.only.emplace();
      std::istringstream parts(value == "none" ? "" : value);
      for (std::string part; std::getline(parts, part, ',');) {
        const size_t dash = part.find('-');
        const uint64_t first = number(flag, part.substr(0, dash));
        const uint64_t last =
            dash == std::string::npos ? first : number(flag, part.substr(dash + 1));
        for (uint64_t fault = first; fault <= last; ++fault) options.wanted.only->insert(fault);
      }
    } else {
      usage("unknown flag: " + flag);
    }
  }
  return options;
}

int run_all(const Options& options) {
  const auto began = std::chrono::steady_clock::now();
  std::map<std::string, uint64_t> marks;
  uint64_t failed = 0, events = 0, frames = 0, hash = 0;
  double simulated_s = 0;
  std::vector<Child> running;
  for (uint64_t next = 0, ended = 0; ended < options.seeds; ++ended) {
    for (; next < options.seeds && running.size() < options.jobs; ++next) {
      running.push_back(start(options.wanted, options.from + next));
    }
    const Child child = running.front();
    running.erase(running.begin());
    Result result = finish(child);
    if (options.twice && result.broken.empty()) {
      const Result again = run(options.wanted, child.seed);
      if (again.outcome.hash != result.outcome.hash) result.broken = "its two runs differ";
    }
    if (!result.broken.empty()) {
      ++failed;
      shrink(options.wanted, child.seed, result.broken);
      continue;
    }
    events += result.outcome.events;
    frames += result.outcome.frames;
    simulated_s += result.outcome.simulated_s;
    hash ^= result.outcome.hash;
    for (const auto& [name, times] : result.outcome.marks) marks[name] += times;
  }
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  for (const auto& [name, times] : marks) {
    std::printf("  %-45s %llu\n", name.c_str(), static_cast<unsigned long long>(times));
  }
  for (const char* name : kRare) {
    if (options.rare == 0 || marks[name] >= options.rare) continue;
    std::printf("never or too seldom: %s\n", name);
    ++failed;
  }
  std::printf(
      "%llu seeds, %llu failures, %llu frames, %llu events, %.0f s simulated in %.1f s: "
      "%.0f seeds an hour and core, trace %016llx\n",
      static_cast<unsigned long long>(options.seeds), static_cast<unsigned long long>(failed),
      static_cast<unsigned long long>(frames), static_cast<unsigned long long>(events), simulated_s,
      s, static_cast<double>(options.seeds) * 3600 / s / options.jobs,
      static_cast<unsigned long long>(hash));
  return failed == 0 ? 0 : 1;
}

int run_one(const Options& options) {
  const auto began = std::chrono::steady_clock::now();
  const Result result = run(options.wanted, options.from);
  if (!result.broken.empty()) {
    shrink(options.wanted, options.from, result.broken);
    return 1;
  }
  for (const auto& [name, times] : result.outcome.marks) {
    std::printf("  %-45s %llu\n", name.c_str(), static_cast<unsigned long long>(times));
  }
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("seed %llu: %llu frames, %.3f s simulated in %.1f s, %.1f MB, trace %016llx\n",
              static_cast<unsigned long long>(options.from),
              static_cast<unsigned long long>(result.outcome.frames), result.outcome.simulated_s, s,
              static_cast<double>(result.outcome.peak_bytes) / 1e6,
              static_cast<unsigned long long>(result.outcome.hash));
  return 0;
}

}  // namespace

void broken(const std::string& promise) {
  std::string line = promise + " (at " + std::to_string(World::current().time_ns()) + " ns)";
  std::ranges::replace(line, '\n', ' ');
  say(line + "\n");
  _exit(1);
}

}  // namespace drlnet::sim

int main(int argc, char** argv) {
  const auto options = drlnet::sim::parse(argc, argv);
  drlnet::sim::load_ciphers();
  return options.one && !options.twice ? drlnet::sim::run_one(options)
                                       : drlnet::sim::run_all(options);
}
