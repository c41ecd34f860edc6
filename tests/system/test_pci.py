"""The DPDK server on an emulated NIC: some of those that native/tests/pci/run.py drives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import drlnet

RUN = Path(__file__).resolve().parents[2] / "native" / "tests" / "pci" / "run.py"
PACKAGE = Path(drlnet.__file__).parent
# The package under test, wherever it is: the script and the guest are to use the same.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
CANNOT_RUN = 77
# A guest boots in one minute on an idle machine; beside other tests it has taken four.
DEADLINE_S = 900.0

pytestmark = pytest.mark.exhaustive  # guests without hardware virtualization: a minute each


@pytest.mark.parametrize(
    ("nic", "words"),
    [
        ("virtio-net-pci", []),
        ("e1000e", ["--ip", "6", "--mtu", "9000"]),
        ("vmxnet3", ["--shards", "2"]),
    ],
    ids=["v4", "v6-jumbo-frames", "two-queues-two-shards"],
)
def test_a_server_on_an_emulated_nic(nic: str, words: list[str]) -> None:
    if not (PACKAGE / "libdrlnet_dpdk.so").exists():
        pytest.skip("this drlnet was built without DPDK: apt-get install dpdk-dev, install it anew")
    ended = subprocess.run(
        [sys.executable, str(RUN), "--nic", nic, "--binding", "vfio-pci", *words],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if ended.returncode == CANNOT_RUN:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_one_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(RUN), "--nic", "e1000e", "--binding", "uio_pci_generic"],
        env={**ENVIRONMENT, "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        deadline = time.monotonic() + DEADLINE_S
        while not list(tmp_path.glob("drlnet-pci.*/console")) and running.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=DEADLINE_S)
    if running.returncode == CANNOT_RUN:
        pytest.skip(said.strip())
    assert (running.returncode, said) == (128 + signal.SIGTERM, "")
    assert not list(tmp_path.iterdir())
