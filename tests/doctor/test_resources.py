"""Memory, processor, limits and packages."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

import pytest
from doctor.machine import Answers, machine, this_machine

from drlnet.doctor import Host, limits, memory, packages, processor
from drlnet.doctor.finding import Finding

NATIVE = Path(__file__).resolve().parents[2] / "native"
GROUP = "sys/fs/cgroup/a/b"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("available_mib", "verdict"), [(8192, "pass"), (700, "warn"), (300, "fail")]
)
def test_memory(tmp_path: Path, available_mib: int, verdict: str) -> None:
    meminfo = f"MemTotal: 99999999 kB\nMemAvailable:   {available_mib * 1024} kB\n"
    finding = memory.memory(machine(tmp_path, {"proc/meminfo": meminfo}))
    assert finding.verdict == verdict
    assert bool(finding.remedy) == (verdict != "pass")


def test_memory_within_the_limit_of_a_control_group(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": "MemAvailable: 8388608 kB\n",
        "proc/self/cgroup": "0::/a/b\n",
        f"{GROUP}/memory.max": "max\n",
        f"{GROUP}/memory.current": f"{100 * MIB}\n",
        "sys/fs/cgroup/a/memory.max": f"{400 * MIB}\n",
        "sys/fs/cgroup/a/memory.current": f"{100 * MIB}\n",
    }
    finding = memory.memory(machine(tmp_path, files))
    assert finding.verdict == "fail"
    assert "control group" in finding.found
    assert memory.memory(machine(tmp_path / "empty", {})).verdict == "warn"
    # Most of it holds files that nothing has read lately.
    files |= {
        "sys/fs/cgroup/a/memory.max": f"{2000 * MIB}\n",
        "sys/fs/cgroup/a/memory.current": f"{1990 * MIB}\n",
        "sys/fs/cgroup/a/memory.stat": f"anon 1\nfile 2\ninactive_file {1500 * MIB}\n",
    }
    finding = memory.memory(machine(tmp_path, files))
    assert finding.verdict == "pass"
    assert finding.found.startswith("1.5 GiB available within the limit")


def test_hugepages(tmp_path: Path) -> None:
    text = (NATIVE / "dpdk/environment.cc").read_text()
    found = re.search(r"kMinHugepages = (\d+);", text)
    assert found is not None
    assert int(found.group(1)) == memory.LEAST_HUGEPAGES
    folder = "sys/kernel/mm/hugepages/hugepages-2048kB"
    few = {f"{folder}/free_hugepages": "63\n", f"{folder}/nr_hugepages": "100\n"}
    finding = memory.hugepages(machine(tmp_path, few))
    assert finding.verdict == "warn"
    assert "63 free of 100" in finding.found
    assert "vm.nr_hugepages=612," in finding.remedy  # those that are taken stay
    assert memory.hugepages(machine(tmp_path / "none", {})).verdict == "warn"


def test_hugepages_that_the_kernel_refuses(tmp_path: Path) -> None:
    if this_machine().number("proc/sys/vm/nr_hugepages") != 0:
        pytest.skip("this machine has hugepages")
    folder = "sys/kernel/mm/hugepages/hugepages-2048kB"
    promised = {f"{folder}/free_hugepages": "512\n", f"{folder}/nr_hugepages": "512\n"}
    finding = memory.hugepages(machine(tmp_path, promised))
    assert finding.verdict == "warn"
    assert "none can be had" in finding.found


@pytest.mark.parametrize(
    ("flags", "verdict", "said"),
    [
        ("fpu avx2 popcnt avx512f avx512vl avx512dq avx512bw", "pass", "AVX-512"),
        ("fpu avx2 popcnt avx512f avx512vl avx512dq", "pass", "lacks avx512bw"),
        ("fpu sse4_2 popcnt", "warn", "portable code"),
    ],
)
def test_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, verdict: str, said: str
) -> None:
    monkeypatch.setattr(processor.platform, "machine", lambda: "x86_64")
    finding = processor.vectors(machine(tmp_path, {"proc/cpuinfo": f"flags\t\t: {flags}\n"}))
    assert finding.verdict == verdict
    assert said in finding.found
    monkeypatch.setattr(processor.platform, "machine", lambda: "aarch64")
    assert processor.vectors(machine(tmp_path, {})).verdict == "pass"


def test_one_core_is_too_few(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        finding = processor.cores(machine(tmp_path, {}))
    finally:
        os.sched_setaffinity(0, allowed)
    assert finding.verdict == "warn"
    assert "take turns" in finding.found


@pytest.mark.parametrize(("quota", "said"), [("150000 100000", "1.5:"), ("200000 100000", "2; ")])
def test_cores_within_the_quota_of_a_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, said: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    files = {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": f"{quota}\n"}
    finding = processor.cores(machine(tmp_path, files))
    assert finding.verdict == "warn"
    assert finding.found.startswith(said)
    assert "--poll" in finding.remedy
    assert processor.cores(machine(tmp_path / "free", {})).verdict == "pass"


def test_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor.platform, "machine", lambda: "x86_64")
    clocks = "sys/devices/system/clocksource/clocksource0"
    assert f'"/{clocks}/current_clocksource"' in (NATIVE / "src/base/world.cc").read_text()
    good = {f"{clocks}/current_clocksource": "tsc\n"}
    assert processor.clock(machine(tmp_path / "good", good)).verdict == "pass"
    slow = {
        f"{clocks}/current_clocksource": "hpet\n",
        f"{clocks}/available_clocksource": "tsc hpet\n",
    }
    finding = processor.clock(machine(tmp_path / "slow", slow))
    assert finding.verdict == "warn"
    assert "hpet" in finding.found
    assert "echo tsc" in finding.remedy
    assert processor.clock(machine(tmp_path / "unknown", {})).verdict == "warn"


@pytest.mark.parametrize(("limit", "verdict"), [(39, "fail"), (512, "warn"), (1024, "pass")])
def test_open_files(limit: int, verdict: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        finding = limits.open_files(this_machine())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert finding.verdict == verdict
    assert str(limit) in finding.found


def test_a_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finding = limits.run_folder(this_machine())
    assert finding.verdict == "pass"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs").touch()
    assert limits.run_folder(this_machine()).verdict == "fail"
    monkeypatch.chdir("/proc")  # which not even root can write
    finding = limits.run_folder(this_machine())
    assert finding.verdict == "fail"
    assert "cannot write in /proc" in finding.found
    assert "run.folder" in finding.remedy


def test_packages() -> None:
    torch = {"version": "2.9", "threads": 4, "cuda": None}
    host = this_machine(torch=torch, gymnasium={"version": "1.0"})
    assert packages.torch(host).verdict == "pass"
    assert packages.gymnasium(host) == Finding("pass", "1.0, CartPole-v1 steps")
    for look in (packages.torch, packages.gymnasium):
        assert look(this_machine()).verdict == "fail"


def test_a_gpu(tmp_path: Path) -> None:
    blind = {"cuda": None, "cuda_error": None}
    seeing, full = blind | {"cuda": "NVIDIA H100"}, blind | {"cuda_error": "out of memory"}
    assert packages.gpu(Host(Answers(torch=blind), tmp_path)).verdict == "pass"
    machine(tmp_path, {"dev/nvidia0": ""})
    assert packages.gpu(Host(Answers(torch=blind), tmp_path)).verdict == "warn"
    finding = packages.gpu(Host(Answers(torch=seeing), tmp_path))
    assert finding.verdict == "pass"
    assert "NVIDIA H100" in finding.found
    assert "learner.device=cuda" in finding.found
    finding = packages.gpu(Host(Answers(torch=full), tmp_path))
    assert finding.verdict == "warn"
    assert "out of memory" in finding.found
    assert packages.gpu(Host(Answers(), tmp_path)).verdict == "warn"
