// A descriptor that one thread waits on and any other, or a signal handler, makes readable.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "base/error.h"

namespace drlnet {

class WakeFd {
 public:
  // Throws Error(transport) when the process has no descriptor left.
  WakeFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd_ < 0) {
      throw Error(Status::transport, std::string("eventfd: ") + std::strerror(errno),
                  "Raise the limit on open files (ulimit -n).");
    }
  }
  ~WakeFd() { close(fd_); }
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;

  int fd() const { return fd_; }
  void wake() {
    // Only an eventfd at its maximum refuses, and that one is readable.
    DRLNET_ASSERT(eventfd_write(fd_, 1) == 0 || errno == EAGAIN);
  }
  void clear() {
    eventfd_t ignored;
    eventfd_read(fd_, &ignored);  // fails when it was not woken: as good as read
  }

 private:
  int fd_;
};

}  // namespace drlnet
