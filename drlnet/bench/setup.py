"""How the machine is set up: what the kernel, its command line and its NICs do to latencies.

Read from the system itself; what cannot be read is left out. root: a folder that stands for `/`.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import os
import re
import socket
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path("/")
_CPU = "sys/devices/system/cpu"
# Words of the kernel's command line that move cores, interrupts, memory or mitigations.
_WORDS = re.compile(
    r"(isolcpus|nohz|rcu_nocb|irqaffinity|nosmt|maxcpus|mitigations|no?pti|kpti|spec|nospectre|"
    r"retbleed|mds|l1tf|tsx|idle|cpuidle|intel_idle|processor\.|intel_pstate|amd_pstate|haltpoll|"
    r"hugepage|default_hugepage|transparent_hugepage|numa|iommu|intel_iommu|amd_iommu|swiotlb|"
    r"tsc|clocksource|preempt|skew_tick|nmi_watchdog|nowatchdog|nosoftlockup)"
)
_OFFLOADS = {  # ETHTOOL_GRXCSUM and so on, of linux/ethtool.h
    **{"rx_checksums": 0x14, "tx_checksums": 0x16, "scatter_gather": 0x18},
    **{"tso": 0x1E, "gso": 0x23, "gro": 0x2B},
}
_SIOCETHTOOL, _SIOCGIFADDR = 0x8946, 0x8915


def machine_setup(root: Path = ROOT) -> dict[str, Any]:
    """Governor, mitigations, hugepages, NUMA nodes, isolated cores, and what else is set up."""
    command_line = _text(root, "proc/cmdline").split()
    found = {
        "governors": _each(root, f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor"),
        "frequency_driver": _each(root, f"{_CPU}/cpu[0-9]*/cpufreq/scaling_driver"),
        "boost": _text(root, f"{_CPU}/cpufreq/boost"),
        "no_turbo": _text(root, f"{_CPU}/intel_pstate/no_turbo"),
        "smt": _text(root, f"{_CPU}/smt/active"),
        "isolated_cores": _text(root, f"{_CPU}/isolated"),
        "nohz_full_cores": _text(root, f"{_CPU}/nohz_full"),
        "clocksource": _text(
            root, "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "mitigations": {
            file.name: _short(text)
            for file in sorted((root / _CPU / "vulnerabilities").glob("*"))
            if (text := _text(root, str(file.relative_to(root)))) not in {"", "Not affected"}
        },
        "hugepages": _hugepages(root),
        "transparent_hugepages": _chosen(_text(root, "sys/kernel/mm/transparent_hugepage/enabled")),
        "numa_cores": {
            node.name: _text(root, str((node / "cpulist").relative_to(root)))
            for node in sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
        },
        "kernel_command_line": [word for word in command_line if _WORDS.match(word)],
    }
    return {name: value for name, value in found.items() if value}


def dpdk_setup() -> dict[str, str]:
    """DPDK's version, and the arguments for its environment layer beside ours; empty without it.

    Asked of the library, which is loaded and not started.
    """
    module = importlib.util.find_spec("drlnet._native")
    if module is None or module.origin is None:
        return {}
    try:
        version = ctypes.CDLL(str(Path(module.origin).with_name("libdrlnet_dpdk.so"))).rte_version
    except OSError:
        return {}
    version.restype = ctypes.c_char_p
    arguments = os.environ.get("DRLNET_EAL")
    return {
        "version": version().decode().removeprefix("DPDK "),
        **({"eal_arguments": arguments} if arguments else {}),
    }


def nic_of(address: str, root: Path = ROOT) -> dict[str, Any]:
    """The interface or PCI device that carries what goes to an address: name, driver, offloads.

    Empty for shared memory, and where the kernel knows no way.
    """
    dpdk = re.match(r"dpdk:(af_packet|af_xdp|pci):([^,]+)", address)
    if dpdk and dpdk[1] == "pci":
        device = Path("sys/bus/pci/devices") / dpdk[2]
        return _known({"pci": dpdk[2], **_device(root, device)})
    if dpdk:
        return interface(dpdk[2], root)
    udp = re.match(r"udp://\[?(.+?)\]?:(\d+)", address)
    name = _interface_to(udp[1], int(udp[2])) if udp else ""
    return interface(name, root) if name else {}


def interface(name: str, root: Path = ROOT) -> dict[str, Any]:
    """An interface of the kernel, as ip(8) and ethtool(8) show it."""
    place = Path("sys/class/net") / name
    facts = {
        "interface": name,
        "mtu": _text(root, f"{place}/mtu"),
        "speed_mbps": _text(root, f"{place}/speed"),
        "rx_queues": str(len(list((root / place / "queues").glob("rx-*"))) or ""),
        **_device(root, place / "device"),
    }
    if root == ROOT:  # these are asked of the kernel
        facts |= {word: _offload(name, number) for word, number in _OFFLOADS.items()}
    return _known(facts)


def _device(root: Path, place: Path) -> dict[str, str]:
    driver = root / place / "driver"
    found = {name: _text(root, f"{place}/{name}") for name in ("vendor", "device", "numa_node")}
    return {"driver": driver.resolve().name if driver.exists() else "", **found}


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    """Without what the kernel does not know: it writes -1 for it."""
    return {name: value for name, value in facts.items() if value not in ("", "-1", None)}


def _offload(name: str, number: int) -> str:
    """on, off, or nothing where the driver does not say."""
    value = ctypes.create_string_buffer(struct.pack("II", number, 0))
    request = struct.pack("16sP16x", name.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
        try:
            fcntl.ioctl(kernel, _SIOCETHTOOL, request)
        except OSError:
            return ""
    return "on" if struct.unpack("II", value.raw[:8])[1] else "off"


def _interface_to(host: str, port: int) -> str:
    """The name of the interface whose address the kernel sends from; nothing is sent."""
    try:
        (family, kind, *_, place), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        with socket.socket(family, kind) as way:
            way.connect(place)
            own = socket.inet_pton(family, way.getsockname()[0].partition("%")[0])
    except OSError:  # no such host, or no way to it
        return ""
    if family == socket.AF_INET6:
        rows = [line.split() for line in _text(ROOT, "proc/net/if_inet6").splitlines()]
        return next((row[-1] for row in rows if row[0] == own.hex()), "")
    return next((name for _, name in socket.if_nameindex() if _ipv4(name) == own), "")


def _ipv4(name: str) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
        try:
            answer = fcntl.ioctl(kernel, _SIOCGIFADDR, struct.pack("16s24x", name.encode()))
        except OSError:  # it has none
            return b""
    return answer[20:24]


def _hugepages(root: Path) -> dict[str, str]:
    """{"2048kB": "512 free of 512"}"""
    found = {}
    for folder in sorted((root / "sys/kernel/mm/hugepages").glob("hugepages-*")):
        free, total = (
            _text(root, str((folder / name).relative_to(root)))
            for name in ("free_hugepages", "nr_hugepages")
        )
        if free and total:
            found[folder.name.removeprefix("hugepages-")] = f"{free} free of {total}"
    return found


def _each(root: Path, pattern: str) -> list[str]:
    """What the files of that pattern say, each word once."""
    texts = (_text(root, str(file.relative_to(root))) for file in root.glob(pattern))
    return sorted({text for text in texts if text})


def _chosen(text: str) -> str:
    """ "always [madvise] never": the word in brackets."""
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else ""


def _short(text: str) -> str:
    """ "Mitigation: Retpolines; STIBP: disabled; ..." in its first words."""
    return text.partition(";")[0].removeprefix("Mitigation: ")


def _text(root: Path, path: str) -> str:
    try:
        return (root / path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # absent, or this interface does not tell
        return ""


def setup_of(subjects: Iterable[str], addresses: Iterable[str] = ()) -> dict[str, Any]:
    """What a benchmark's record says: DPDK where a subject is of it, a NIC where one is used."""
    dpdk = any("dpdk:" in subject for subject in subjects)
    nics = [nic for address in addresses if (nic := nic_of(address))]
    return {
        **machine_setup(),
        **({"dpdk": found} if dpdk and (found := dpdk_setup()) else {}),
        **({"nics": nics} if nics else {}),
    }
