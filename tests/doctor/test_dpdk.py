"""DPDK: what the trial says, the folder where ends of a link meet, NICs on PCI."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

import pytest
from doctor.machine import machine, this_machine

from drlnet.doctor import Host, dpdk
from drlnet.doctor.finding import Finding

NATIVE = Path(__file__).resolve().parents[2] / "native"
LOADED = ["vhost", "virtio", "memif", "af_packet", "af_xdp", "ice", "ixgbe"]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def folder_with(runtime: Path, mode: int = 0o700, *names: str) -> Path:
    folder = runtime / "drlnet"
    folder.mkdir()
    folder.chmod(mode)
    for name in names:
        (folder / name).touch()
    return folder


def test_dpdk_that_works_and_dpdk_that_does_not() -> None:
    working = this_machine(dpdk={"version": "22.11.11", "drivers": LOADED})
    assert dpdk.starts(working) == Finding("pass", "22.11.11, a server answers over dpdk:local")
    assert dpdk.starts(this_machine()) == Finding("fail", "dpdk is not there", "install dpdk")


def test_drivers_by_address() -> None:
    finding = dpdk.drivers(this_machine(dpdk={"drivers": LOADED}))
    assert finding == Finding("pass", "for local, memif, af_packet, af_xdp; 2 more")
    lacking = dpdk.drivers(this_machine(dpdk={"drivers": ["vhost", "virtio", "af_packet"]}))
    assert lacking.verdict == "warn"
    assert "none for memif, af_xdp" in lacking.found
    assert "apt-get install" in lacking.remedy
    assert dpdk.drivers(this_machine()).verdict == "warn"


def test_a_folder_that_is_not_there_is_not_left_behind(runtime: Path) -> None:
    assert dpdk.local_folder(this_machine()) == Finding("pass", str(runtime / "drlnet"))
    assert list(runtime.iterdir()) == []


def test_a_folder_that_is_open_to_others(runtime: Path) -> None:
    folder = folder_with(runtime, 0o755)
    finding = dpdk.local_folder(this_machine())
    assert finding.verdict == "fail"
    assert "open to other users" in finding.found
    assert f"chmod 700 {folder}" in finding.remedy


def test_a_folder_that_is_none(runtime: Path) -> None:
    (runtime / "drlnet").touch()
    assert dpdk.local_folder(this_machine()).verdict == "fail"


def test_a_place_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc")  # not even by root
    finding = dpdk.local_folder(this_machine())
    assert finding.verdict == "fail"
    assert "cannot write in /proc/drlnet" in finding.found
    assert "XDG_RUNTIME_DIR" in finding.remedy


def test_a_place_whose_name_is_too_long(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = runtime / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    finding = dpdk.local_folder(this_machine())
    assert finding.verdict == "fail"
    assert "too long" in finding.found


def test_files_of_killed_servers_are_counted_and_those_of_living_ones_not(runtime: Path) -> None:
    folder = folder_with(runtime, 0o700, "dead", "dead.lock", "dead.3", "alive", "alive.lock")
    with (folder / "alive.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        finding = dpdk.local_folder(this_machine())
    assert finding.verdict == "warn"
    assert f"{folder} holds 3 files" in finding.found
    assert f"rm -r {folder}" in finding.remedy
    assert len(list(folder.iterdir())) == 5


def test_the_rules_of_the_folder_are_those_of_the_native_core() -> None:
    text = (NATIVE / "dpdk/rendezvous.cc").read_text()
    for rule in ('"XDG_RUNTIME_DIR"', '"/drlnet"', '"/tmp/drlnet-"', "0077", ".lock"):
        assert rule in text
    assert re.search(r"kRoomForNumber = 12;", text)


def nic(root: Path, address: str, driver: str, group: str | None = None) -> Host:
    host = machine(root, {f"sys/bus/pci/devices/{address}/class": "0x020000\n"})
    device = root / "sys/bus/pci/devices" / address
    targets = {"driver": root / "sys/bus/pci/drivers" / driver}
    if group is not None:
        targets["iommu_group"] = root / "sys/kernel/iommu_groups" / group
    for name, target in targets.items():
        target.mkdir(parents=True, exist_ok=True)
        (device / name).symlink_to(target)
    return host


def test_no_nic_for_dpdk(tmp_path: Path) -> None:
    disk = machine(tmp_path, {"sys/bus/pci/devices/0000:00:01.0/class": "0x010000\n"})
    assert "there is no NIC" in dpdk.pci_devices(disk).found
    finding = dpdk.pci_devices(nic(tmp_path, "0000:00:03.0", "ixgbe"))
    assert finding.verdict == "warn"
    assert "the kernel has 0000:00:03.0 (ixgbe)" in finding.found
    assert "dpdk-devbind.py" in finding.remedy


def test_a_nic_for_dpdk_that_this_user_may_open(tmp_path: Path) -> None:
    host = nic(tmp_path, "0000:3b:00.0", "vfio-pci", "17")
    missing = dpdk.pci_devices(host)
    assert missing.verdict == "warn"
    assert f"may not open {tmp_path}/dev/vfio/17" in missing.found
    assert f"chown {os.geteuid()} {tmp_path}/dev/vfio/17" in missing.remedy
    machine(tmp_path, {"dev/vfio/17": ""})
    assert dpdk.pci_devices(host) == Finding("pass", "0000:3b:00.0 (vfio-pci)")


def test_a_nic_bound_to_uio(tmp_path: Path) -> None:
    host = nic(tmp_path, "0000:3b:00.0", "uio_pci_generic")
    (tmp_path / "sys/bus/pci/devices/0000:3b:00.0/uio/uio4").mkdir(parents=True)
    assert f"may not open {tmp_path}/dev/uio4" in dpdk.pci_devices(host).found
    machine(tmp_path, {"dev/uio4": ""})
    assert dpdk.pci_devices(host).verdict == "pass"
