// Frames and bytes of one session, or of several. Threading: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/metrics.h"

namespace drlnet {

struct Traffic {
  uint64_t frames_received = 0, frames_sent = 0, bytes_received = 0, bytes_sent = 0;

  void received(uint64_t bytes) {
    ++frames_received;
    bytes_received += bytes;
  }
  void sent(uint64_t bytes) {
    ++frames_sent;
    bytes_sent += bytes;
  }
  void add(const Traffic& other) {
    frames_received += other.frames_received;
    frames_sent += other.frames_sent;
    bytes_received += other.bytes_received;
    bytes_sent += other.bytes_sent;
  }
  void read_metrics(const std::string& prefix, Metrics& metrics) const {
    metrics.set(prefix + "frames_received", frames_received);
    metrics.set(prefix + "frames_sent", frames_sent);
    metrics.set(prefix + "bytes_received", bytes_received);
    metrics.set(prefix + "bytes_sent", bytes_sent);
  }
};

}  // namespace drlnet
