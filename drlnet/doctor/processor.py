"""The processor: its vectors, its cores, its clock."""

from __future__ import annotations

import os
import platform

from drlnet.config import ActorConfig
from drlnet.doctor.finding import Finding, passed, warned
from drlnet.doctor.host import Host

# What is compiled for more than the baseline looks for one of these sets at run time.
AVX512 = ("avx512f", "avx512vl", "avx512dq", "avx512bw")
AVX2 = ("avx2", "popcnt")
_CLOCKS = "sys/devices/system/clocksource/clocksource0"


def vectors(host: Host) -> Finding:
    """The widest instructions that the sampler and DPDK can use here."""
    machine = platform.machine()
    if machine not in {"x86_64", "AMD64"}:
        return passed(f"{machine}: portable code, the only kind for this processor")
    flags = set(host.field("proc/cpuinfo", "flags").split())
    if flags.issuperset(AVX512):
        return passed("AVX-512 (F, VL, DQ, BW)")
    missing = ", ".join(name for name in AVX512 if name not in flags)
    if flags.issuperset(AVX2):
        return passed(f"AVX2 (for AVX-512 it lacks {missing})")
    return warned(
        "neither AVX-512 nor AVX2: portable code",
        "in a virtual machine, hand the host's processor through (qemu: -cpu host)",
    )


def usable_cores(host: Host) -> float:
    """Cores that this process may use: its CPU affinity and its control group's quota."""
    cores = float(len(os.sched_getaffinity(0)))
    for group in host.cgroups():
        quota, _, period = (host.text(f"{group}/cpu.max") or "").partition(" ")
        if quota.isdecimal() and period.isdecimal():
            cores = min(cores, int(quota) / int(period))
    return cores


def cores(host: Host) -> Finding:
    """Two at least, and one for each thread that polls where nothing sleeps."""
    usable = usable_cores(host)
    polling = 2 + ActorConfig().num_actors  # a server, a learner, actors
    if usable < 2:
        return warned(
            f"{usable:g}: server, learner and actors take turns",
            "allow two or more; until then --poll block",
        )
    found = f"{usable:g}; --poll busy takes one for each of {polling} processes"
    if usable < polling:
        return warned(found, "leave --poll at adaptive, the default, which sleeps between packets")
    return passed(found)


def clock(host: Host) -> Finding:
    """native/src/base/world.h reads the time-stamp counter only where the kernel trusts it."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return passed("the kernel's monotonic clock")
    current = host.text(f"{_CLOCKS}/current_clocksource")
    if current == "tsc":
        return passed("the time-stamp counter (tsc)")
    found = f"the kernel keeps time by {current or 'something unknown'}: slower to read"
    if "tsc" in (host.text(f"{_CLOCKS}/available_clocksource") or "").split():
        return warned(found, f"as root: echo tsc > /{_CLOCKS}/current_clocksource")
    return warned(
        found,
        "the kernel found the counter unsteady (dmesg | grep -i tsc); in a virtual machine ask the "
        "host for an invariant one",
    )
