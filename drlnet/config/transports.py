"""What the processes of one machine can talk over, and where a server listens for that."""

from __future__ import annotations

# For this machine alone; the port or the name is picked when the server starts.
LISTEN = {
    "udp": "udp://127.0.0.1:0",
    "dpdk:local": "dpdk:local:0",
    "dpdk:memif": "dpdk:memif:0",
    "dpdk:virtio-user": "dpdk:virtio-user:0",
}
# As in native/dpdk/nic_link.cc: the largest MTU at which a frame of af_xdp lies in one page.
AF_XDP_MTU = 3498
