"""Facts about the machine and the process, read from the system itself."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path

_IMPORTED_AT = time.monotonic()
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def seconds_since_start() -> float:
    """Seconds since this process was started, interpreter start-up and imports included."""
    try:
        # Field 22 of stat is the start in clock ticks since boot; the name before it may hold
        # spaces and brackets, so count from the last bracket.
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)
    except (OSError, AttributeError):  # no /proc: all but the interpreter's own start-up
        return time.monotonic() - _IMPORTED_AT


def host_facts() -> dict[str, str | int | float]:
    """The machine as a result should name it: cpu, cores, caches, memory, kernel, versions."""
    facts: dict[str, str | int | float] = {
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 0,
        "cores_usable": _usable_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    facts |= {f"{name.lower()}_cache_bytes": size for name, size in cache_bytes().items()}
    # Asked of the package's metadata: importing torch for its version would cost seconds.
    for package in ("torch", "numpy", "gymnasium"):
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def source_commit() -> str | None:
    """The commit of the checkout that this package is imported from; None of an installed one.

    "9305d7f", or "9305d7f, changed" where a source is not what was committed. Whether the native
    core was built from them it does not say.
    """
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        # Not of the repository that a hook is run for.
        here = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=False, env=here
        )

    try:
        head = git("rev-parse", "--short=7", "HEAD")
        changed = git("status", "--porcelain", "--", "drlnet", "native").stdout != ""
    except OSError:  # no git
        return None
    if head.returncode != 0:  # another user's checkout, which git does not trust
        return None
    return f"{head.stdout.strip()}{', changed' if changed else ''}"


def cache_bytes() -> dict[str, int]:
    """What the first core's data caches hold: {"L1": 49152, "L2": ...}; empty where unknown.

    Source: /sys/devices/system/cpu/cpu0/cache (kernel documentation, ABI/stable/sysfs-devices).
    """
    found: dict[str, int] = {}
    for cache in sorted(_CACHES.glob("index*")):
        try:
            kind, level, size = (
                (cache / name).read_text(encoding="ascii").strip()
                for name in ("type", "level", "size")
            )
            if kind != "Instruction":
                found[f"L{level}"] = int(size.removesuffix("K")) * 1024
        except (OSError, ValueError):  # guests, on ARM above all, are not told all of it
            continue
    return found


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()
