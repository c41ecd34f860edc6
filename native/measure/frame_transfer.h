// A bare transfer in frames, over any transport: no session, no table. A request names a range; the
// answer is that range in frames as long as a session's, copied out of memory and into it. What a
// reply's bytes cost at least as our transports carry them; udp_transfer.h has what they cost the
// kernel alone. Threading: one thread for each side.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/poll.h"
#include "measure/loop.h"
#include "transport/transport.h"

namespace drlnet::measure {

class FrameSender {
 public:
  FrameSender(const std::string& address, Poll poll);  // throws Error(transport)

  std::string address() const { return transport_->local_address(); }
  // Answers for that long. Returns how many requests came.
  size_t serve(uint64_t for_ns);

 private:
  void answer(const RxFrame& request);

  std::unique_ptr<Transport> transport_;
  Poll poll_;
  std::vector<std::byte> memory_;
};

class FrameReceiver {
 public:
  FrameReceiver(const std::string& address, Poll poll);

  // Transfers of that many bytes in frames as a session tries first, a window under way at a time,
  // as pulls are. Throws Error(timeout) when nothing comes for a second.
  size_t transfers(size_t bytes, const Loop& loop);

 private:
  void transfer(size_t bytes);
  void ask(size_t offset, size_t length);
  size_t take();

  Connected connected_;
  Poll poll_;
  std::vector<std::byte> memory_;
  size_t frame_bytes_;
  uint64_t number_ = 0;  // of the transfer: what is late of another one is dropped
};

}  // namespace drlnet::measure
