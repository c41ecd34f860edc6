"""What a process says of itself, against what it does."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from drlnet.metrics import usage
from drlnet.metrics.usage import gpu_figures, machine_figures, process_figures


def test_figures_follow_what_the_process_does() -> None:
    before = process_figures()
    ends = time.process_time() + 0.05
    while time.process_time() < ends:
        pass
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    after = process_figures()
    waiting.set()
    thread.join()
    assert before["pid"] == os.getpid()
    assert after["threads"] == before["threads"] + 1
    assert after["cpu_s"] - before["cpu_s"] >= 0.05


def test_an_actors_cpu_is_its_environments_too() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('x', flush=True); input()"
    own = ["-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"]
    before, alone = process_figures(with_children=True)["cpu_s"], process_figures()["cpu_s"]
    with subprocess.Popen(
        [sys.executable, *own], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"x\n"
        during = process_figures(with_children=True)["cpu_s"]
    after = process_figures(with_children=True)["cpu_s"]
    assert during - before >= 0.28  # the kernel counts in hundredths of a second
    assert after >= during - 0.04 and process_figures()["cpu_s"] - alone < 0.28


def test_memory_is_resident_once_it_is_written() -> None:
    before = process_figures()["resident_bytes"]
    # Of its own: a heap may have room left from earlier tests, which is resident already.
    with mmap.mmap(-1, 64_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        while held.tell() < len(held):
            held.write(b"x" * 1_000_000)
        grown = process_figures()["resident_bytes"] - before
    assert grown > 64_000_000 * 0.9


def test_a_processor_is_no_gpu() -> None:
    assert gpu_figures("cpu") == {}


@pytest.mark.parametrize(
    ("status", "expected"),
    [(0, {"gpu_memory_bytes": 123, "gpu_utilization": 0.37}), (999, {"gpu_memory_bytes": 123})],
)
def test_a_gpu_by_its_driver(
    monkeypatch: pytest.MonkeyPatch, status: int, expected: dict[str, float]
) -> None:
    asked: list[bytes] = []

    class Driver:
        """Behaves like NVML's functions: results through pointers, 0 for success."""

        def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:
            asked.append(uuid)
            ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))[0] = 77
            return 0

        def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:
            assert handle.value == 77
            percent = ctypes.cast(rates, ctypes.POINTER(ctypes.c_uint))
            percent[0], percent[1] = 37, 5
            return status

    monkeypatch.setattr(usage, "_nvml", Driver)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 123)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _device: SimpleNamespace(uuid="a-b")
    )
    assert gpu_figures("cuda:0") == expected
    assert asked == [b"GPU-a-b"]


def test_the_machine_is_not_idle_while_this_works() -> None:
    before, began = machine_figures(), time.monotonic()
    delayed = process_figures()["run_delay_s"]
    ends = time.process_time() + 0.3
    while time.process_time() < ends:
        pass
    after, seconds = machine_figures(), time.monotonic() - began
    cores = len(os.sched_getaffinity(0))
    assert after["host.cores"] == cores
    assert 0 <= after["host.idle_s"] - before["host.idle_s"] <= cores * seconds - 0.3 + 0.05
    assert after.get("host.pressure_s", 0) >= before.get("host.pressure_s", 0)
    assert 0 <= process_figures()["run_delay_s"] - delayed <= seconds
