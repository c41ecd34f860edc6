// A bare transfer over kernel UDP alone, beside our transports: the floor of large replies. Bytes
// from one thread's buffer into another's and nothing else. Datagrams are as long as loopback
// takes, and so are a session's, and arrive straight in their place: no copy but the kernel's, no
// header, no retransmission. The receiver allows no more bytes than its socket's buffer holds, so
// that none is lost.
#pragma once

#include <cstdint>
#include <optional>

#include "base/poll.h"
#include "measure/loop.h"

namespace drlnet::measure {

// Transfers of that many bytes from a thread on `core` to this one. Throws Error(transport) when
// nothing comes for a second, or what came last is not what was sent.
size_t udp_transfers(std::optional<unsigned> core, Poll poll, uint64_t bytes, const Loop& loop);

}  // namespace drlnet::measure
