"""Memory: what is free of it, and whether packet buffers can lie in hugepages."""

from __future__ import annotations

import mmap
import re

from drlnet.doctor.finding import Finding, failed, passed, warned
from drlnet.doctor.host import Host

# `drlnet run CartPole-v1` was measured to hold 503 MB at most, 634 MB over dpdk:local.
LEAST_BYTES = 512 << 20
COMFORTABLE_BYTES = 1 << 30
# kMinHugepages of native/dpdk/environment.cc: with fewer a process takes ordinary memory.
LEAST_HUGEPAGES = 64
_HUGEPAGE_BYTES = 2 << 20
_MAP_HUGETLB = 0x40000


def memory(host: Host) -> Finding:
    """What is available, within the control group's limit."""
    words = host.field("proc/meminfo", "MemAvailable").split()
    if not words:
        return warned("not known: /proc/meminfo says nothing", "mount /proc")
    available, limited = int(words[0]) * 1024, ""
    for group in host.cgroups():
        limit, used = host.number(f"{group}/memory.max"), host.number(f"{group}/memory.current")
        if limit is None or used is None:
            continue
        free = limit - used + _idle_cache_bytes(host, group)
        if free < available:
            available, limited = max(0, free), " within the limit of its control group"
    found = f"{available / 2**30:.1f} GiB available{limited}"
    remedy = "end other processes, or lower replay.capacity and actor.num_actors"
    if available < LEAST_BYTES:
        return failed(f"{found}; a small run takes 0.5", remedy)
    if available < COMFORTABLE_BYTES:
        return warned(f"{found}; a small run takes 0.5", remedy)
    return passed(found)


def _idle_cache_bytes(host: Host, group: str) -> int:
    """Contents of files that the kernel keeps for want of a better use of the memory."""
    found = re.search(r"^inactive_file (\d+)$", host.text(f"{group}/memory.stat") or "", re.M)
    return int(found[1]) if found else 0


def hugepages(host: Host) -> Finding:
    """Whether DPDK would take its packet buffers from them."""
    folder = "sys/kernel/mm/hugepages/hugepages-2048kB"
    free, total = host.number(f"{folder}/free_hugepages"), host.number(f"{folder}/nr_hugepages")
    if not free or free < LEAST_HUGEPAGES:
        return warned(
            f"{free or 0} free of {total or 0} of 2 MB; DPDK takes ordinary memory",
            f"sysctl vm.nr_hugepages={(total or 0) + 512}, as root: fewer TLB misses; not needed",
        )
    try:
        mmap.mmap(
            -1, _HUGEPAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_HUGETLB
        ).close()
    except OSError as error:
        return warned(
            f"{free} free of {total} of 2 MB, but none can be had: {error.strerror}",
            "raise this process's limits on hugepages (its control group's hugetlb.2MB.max)",
        )
    return passed(f"{free} free of {total} of 2 MB; DPDK takes its packet buffers from them")
