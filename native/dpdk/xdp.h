// The libraries below the af_xdp driver print what they do on standard error: not ours to show.
#pragma once

namespace drlnet::dpdk {

// Sends what they say to DPDK's log instead. After the environment's start, before the first port.
void quiet_xdp();

}  // namespace drlnet::dpdk
