"""The DPDK server on an emulated NIC: two of those that native/tests/pci/run.py drives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import drlnet

RUN = Path(__file__).resolve().parents[2] / "native" / "tests" / "pci" / "run.py"
PACKAGE = Path(drlnet.__file__).parent
CANNOT_RUN = 77
DEADLINE_S = 360.0


@pytest.mark.parametrize(
    ("nic", "words"),
    [("virtio-net-pci", []), ("e1000e", ["--ip", "6", "--mtu", "9000"])],
    ids=["v4", "v6-jumbo-frames"],
)
def test_a_server_on_an_emulated_nic(nic: str, words: list[str]) -> None:
    if not (PACKAGE / "libdrlnet_dpdk.so").exists():
        pytest.skip("this drlnet was built without DPDK: apt-get install dpdk-dev, install it anew")
    # The package under test, wherever it is: the script and the guest are to use the same.
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    ended = subprocess.run(
        [sys.executable, str(RUN), "--nic", nic, "--binding", "vfio-pci", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if ended.returncode == CANNOT_RUN:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stdout + ended.stderr
