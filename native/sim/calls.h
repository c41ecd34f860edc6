// How simulated clients call: under the oracle's eyes, over one session after another.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "base/random.h"
#include "base/world.h"
#include "client/client.h"
#include "clients.h"

namespace drlnet::sim {

constexpr uint64_t kMs = 1'000'000;

// Runs a call and sees that it ends by its deadline: (3).
class CallClock {
 public:
  CallClock(Run& run, const char* what, uint64_t limit_ns);
  void check() const;
  // What a call that fails says must be of use, too.
  void check(const Error& error) const;

 private:
  Run& run_;
  const char* what_;
  uint64_t limit_ns_, began_ns_, jumped_ns_;
};

template <typename Action>
auto timed(Run& run, const char* what, uint64_t limit_ns, Action action) {
  const CallClock clock(run, what, limit_ns);
  try {
    if constexpr (std::is_void_v<decltype(action())>) {
      action();
      clock.check();
    } else {
      auto result = action();
      clock.check();
      return result;
    }
  } catch (const Error& error) {
    clock.check(error);
    throw;
  }
}

// Errors that a network, a restart or a limit explains. Others are ours.
void expect(Run& run, const Error& error);

// A client that the run counts while it is there.
class Guest : public Client {
 public:
  Guest(Run& run, const ClientOptions& options);
  ~Guest();

 private:
  Run& run_;
};

struct Session {
  std::unique_ptr<Guest> client;
  uint32_t table = 0;
};

// The newest that the server has of the params, or of that blob, where it is newer than `version`;
// the version then.
uint64_t fetch_newer(Run& run, const ClientSettings& settings, Client& client, uint64_t version,
                     const std::string& name = Oracle::kParams);

Session open(Run& run, const ClientSettings& settings, const char* name);
// Runs `work` over one session after another until it says that it is done.
void persist(Run& run, const ClientSettings& settings, const char* name,
             const std::function<bool(Session&)>& work);

}  // namespace drlnet::sim
