// A descriptor that one thread waits on and any other, or a signal handler, makes readable.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/world.h"

namespace drlnet {

class WakeFd {
 public:
  // Throws Error(transport) when the process has no descriptor left.
  WakeFd() : fd_(open_wake_fd()) {
    if (fd_ < 0) {
      throw Error(Status::transport, std::string("eventfd: ") + std::strerror(errno),
                  "Raise the limit on open files (ulimit -n).");
    }
  }
  ~WakeFd() { close_wake_fd(fd_); }
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;

  int fd() const { return fd_; }
  // Until it is readable, or until then.
  void wait(uint64_t until_ns) const {
    pollfd one{fd_, POLLIN, 0};
    sleep_on({&one, 1}, until_ns);
  }
  void wake() { set_wake_fd(fd_); }
  void clear() { clear_wake_fd(fd_); }

 private:
  int fd_;
};

}  // namespace drlnet
