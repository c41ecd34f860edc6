"""What this process takes of its machine, read from the system itself."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any


def process_figures(*, with_children: bool = False) -> dict[str, int | float]:
    """pid; cpu_s, of all its threads; resident_bytes; threads. Of this process alone.

    with_children: cpu_s is of its child processes, too, where those report nothing themselves.
    run_delay_s, where the kernel tells it: how long its main thread was ready and had no core.
    Source: proc(5), /proc/self/statm, /proc/self/task, /proc/self/schedstat.
    """
    resident_pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    figures = {
        "pid": os.getpid(),
        "cpu_s": time.process_time() + (_children_cpu_s() if with_children else 0.0),
        "resident_bytes": int(resident_pages) * os.sysconf("SC_PAGE_SIZE"),
        "threads": len(list(Path("/proc/self/task").iterdir())),
    }
    schedule = Path("/proc/self/schedstat")
    if schedule.is_file():
        figures["run_delay_s"] = int(schedule.read_text(encoding="ascii").split()[1]) * 1e-9
    return figures


def _children_cpu_s() -> float:
    """What the processes below this one have used so far, those that have ended included.

    Source: proc(5), /proc/PID/stat (utime, stime, cutime, cstime) and /proc/PID/task/TID/children.
    """
    ended = os.times()
    ticks, parents = 0, [os.getpid()]
    while parents:
        for child in children_of(parents.pop()):
            with suppress(OSError):  # it has ended meanwhile
                stat = Path(f"/proc/{child}/stat").read_text(encoding="ascii", errors="replace")
                ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
                parents.append(child)
    return ended.children_user + ended.children_system + ticks / os.sysconf("SC_CLK_TCK")


def children_of(pid: int) -> list[int]:
    """The child processes of that one, by id; [] where it has ended, or the kernel tells none."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        lists = [(task / "children").read_text(encoding="ascii") for task in tasks]
    except OSError:
        return []
    return [int(child) for text in lists for child in text.split()]


def machine_figures() -> dict[str, int | float]:
    """The cores that this process may use: host.cores, and host.idle_s of all together.

    host.pressure_s, where the kernel tells it: how long some process of the machine was ready and
    had no core. Source: proc(5), /proc/stat (user, nice, system, idle, iowait, ...); psi.rst.
    """
    cores = os.sched_getaffinity(0)
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    idle = 0
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            idle += int(ticks[3]) + int(ticks[4])
    figures = {"host.cores": len(cores), "host.idle_s": idle / ticks_per_s}
    try:
        some = Path("/proc/pressure/cpu").read_text(encoding="ascii").splitlines()[0]
    except OSError:  # no such file, or the kernel was started without it
        return figures
    figures["host.pressure_s"] = int(some.rpartition("total=")[2]) * 1e-6
    return figures


def gpu_figures(device: str) -> dict[str, int | float]:
    """gpu_memory_bytes, that this process holds; gpu_utilization, 0 to 1, of the whole GPU.

    device: torch's name of it. Empty for other GPUs than NVIDIA's; without utilization where the
    driver does not tell it.
    """
    import torch

    if torch.device(device).type != "cuda":
        return {}
    figures: dict[str, int | float] = {"gpu_memory_bytes": torch.cuda.memory_reserved(device)}
    utilization = _utilization(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    return figures if utilization is None else {**figures, "gpu_utilization": utilization}


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))  # percent of the time


def _utilization(uuid: str) -> float | None:
    """The share of the driver's last sampling interval in which the GPU ran a kernel.

    Source: NVML API reference, nvmlDeviceGetUtilizationRates. Every call returns 0 for success.
    """
    nvml = _nvml()
    handle, rates = ctypes.c_void_p(), _Utilization()
    if (
        nvml is None
        or nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) != 0
        or nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) != 0
    ):
        return None
    return float(rates.gpu) / 100


@cache
def _nvml() -> Any:
    """The driver's management library, or None."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None
