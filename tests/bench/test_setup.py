"""What a record says of the set-up: of a tree that stands for `/`, and of this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from drlnet import native
from drlnet.bench.records import Record, Records
from drlnet.bench.setup import dpdk_setup, interface, machine_setup, nic_of, setup_of

pytestmark = pytest.mark.fast
CPU = "sys/devices/system/cpu"
SERVER = {
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu2/cpufreq/scaling_governor": "powersave\n",
    f"{CPU}/isolated": "1-2\n",
    f"{CPU}/smt/active": "0\n",
    f"{CPU}/vulnerabilities/meltdown": "Mitigation: PTI\n",
    f"{CPU}/vulnerabilities/mds": "Not affected\n",
    f"{CPU}/vulnerabilities/spectre_v2": "Mitigation: Retpolines; STIBP: disabled\n",
    f"{CPU}/vulnerabilities/tsa": "Vulnerable: no microcode\n",
    "sys/devices/system/node/node0/cpulist": "0-1\n",
    "sys/devices/system/node/node1/cpulist": "2\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "500\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "512\n",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",  # how many are free: unknown
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "proc/cmdline": "root=/dev/sda1 quiet isolcpus=1-2 nohz_full=1-2 mitigations=auto secret=x\n",
    "sys/class/net/eth1/mtu": "9000\n",
    "sys/class/net/eth1/speed": "-1\n",
    "sys/class/net/eth1/queues/rx-0/rps_cpus": "0\n",
    "sys/class/net/eth1/queues/rx-1/rps_cpus": "0\n",
    "sys/class/net/eth1/queues/tx-0/xps_cpus": "0\n",
    "sys/bus/pci/devices/0000:3b:00.0/vendor": "0x8086\n",
    "sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n",
    "sys/bus/pci/drivers/vfio-pci/new_id": "",
}


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_servers_setup(tmp_path: Path) -> None:
    assert machine_setup(tree(tmp_path, SERVER)) == {
        "governors": ["performance", "powersave"],
        "smt": "0",
        "isolated_cores": "1-2",
        "mitigations": {
            "meltdown": "PTI",
            "spectre_v2": "Retpolines",
            "tsa": "Vulnerable: no microcode",
        },
        "hugepages": {"2048kB": "500 free of 512"},
        "transparent_hugepages": "madvise",
        "numa_cores": {"node0": "0-1", "node1": "2"},
        "kernel_command_line": ["isolcpus=1-2", "nohz_full=1-2", "mitigations=auto"],
    }


def test_what_cannot_be_read_is_absent(tmp_path: Path) -> None:
    assert machine_setup(tmp_path) == {}
    assert interface("eth9", tmp_path) == {"interface": "eth9"}


def test_nics_by_address(tmp_path: Path) -> None:
    root = tree(tmp_path, SERVER)
    device = root / "sys/bus/pci/devices/0000:3b:00.0"
    (device / "driver").symlink_to(root / "sys/bus/pci/drivers/vfio-pci")
    (root / "sys/class/net/eth1/device").symlink_to(device)
    on_pci = {"driver": "vfio-pci", "vendor": "0x8086", "numa_node": "1"}
    assert nic_of("dpdk:pci:0000:3b:00.0,ip=10.7.0.2/24", root) == {
        "pci": "0000:3b:00.0",
        **on_pci,
    }
    eth1 = {"interface": "eth1", "mtu": "9000", "rx_queues": "2", **on_pci}  # its speed is unknown
    assert nic_of("dpdk:af_xdp:eth1,ip=10.7.0.2/24", root) == eth1
    assert nic_of("dpdk:local:0", root) == {}
    assert nic_of("udp://name.invalid:7447", root) == {}


@pytest.mark.parametrize("address", ["udp://127.0.0.1:7447", "udp://localhost:7447"])
def test_the_kernel_names_the_interface_of_an_address(address: str) -> None:
    found = nic_of(address)
    assert found["interface"] == "lo"
    assert found["gso"] in {"on", "off"}
    assert found["mtu"] == Path("/sys/class/net/lo/mtu").read_text(encoding="ascii").strip()


def test_dpdk_is_named_where_it_is_used() -> None:
    assert "dpdk" not in setup_of(["udp busy"])
    assert setup_of(["dpdk:local busy"]).get("dpdk", {}) == dpdk_setup()
    if dpdk_setup():
        assert re.match(r"\d+\.\d+", dpdk_setup()["version"])


def test_records_hold_setup_and_the_cores_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "build_commit", "9305d7f")
    record = Record("s", "udp", "w", "o", 1.0, 1.0, 1.0, 1)
    found = json.loads(Records([record], addresses=["udp://127.0.0.1:1"]).to_json())
    assert found["build_commit"] == "9305d7f"
    assert found["setup"]["nics"][0]["interface"] == "lo"
    monkeypatch.setattr(native, "build_commit", None)  # as from an sdist
    found = json.loads(Records([record]).to_json())
    assert "build_commit" not in found
    assert "nics" not in found["setup"]


def test_the_core_says_what_it_was_built_from() -> None:
    commit = native.build_commit
    if commit is None:
        pytest.skip("built without git, or from an sdist")
    assert re.fullmatch(r"[0-9a-f]{7,}(, changed)?", commit)
