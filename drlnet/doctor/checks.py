"""The list of checks, in the order of the report."""

from __future__ import annotations

from drlnet.doctor import dpdk, limits, memory, network, packages, processor
from drlnet.doctor.finding import Check

CHECKS = (
    Check("server", "run", network.server),
    Check("torch", "run", packages.torch),
    Check("gymnasium", "run", packages.gymnasium),
    Check("memory", "run", memory.memory),
    Check("open files", "run", limits.open_files),
    Check("run folder", "run", limits.run_folder),
    Check("default port", "run", network.default_port),
    Check("DPDK", "dpdk", dpdk.starts),
    Check("DPDK drivers", "dpdk", dpdk.drivers),
    Check("local folder", "dpdk", dpdk.local_folder),
    Check("interfaces", "dpdk", network.interfaces),
    Check("privileges", "dpdk", network.privileges),
    Check("PCI devices", "dpdk", dpdk.pci_devices),
    Check("vectors", "speed", processor.vectors),
    Check("cores", "speed", processor.cores),
    Check("clock", "speed", processor.clock),
    Check("socket buffers", "speed", network.socket_buffers),
    Check("UDP offloads", "speed", network.udp_offloads),
    Check("hugepages", "speed", memory.hugepages),
    Check("GPU", "speed", packages.gpu),
)
