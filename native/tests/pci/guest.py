"""The guest: a machine that qemu emulates, with one NIC whose frames are datagrams."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel import Kernel, build_initramfs, fetch_kernel

NIC_SLOT = "0000:00:03.0"
NIC_MAC = "52:54:00:12:34:56"
# Each emulated NIC with its properties, and its driver in the kernel.
NICS = {
    "virtio-net-pci": ("disable-legacy=on,iommu_platform=on", "virtio_net"),
    "e1000e": ("", "e1000e"),
    "vmxnet3": ("", "vmxnet3"),
}
# With the guest's own kernel driving the NIC, DPDK has no part in it: that tells a fault of this
# script from one of the server.
BINDINGS = {
    "vfio-pci": ["vfio_iommu_type1", "vfio_pci"],
    "uio_pci_generic": ["uio_pci_generic"],
    "kernel": ["af_packet"],
}
BASE_MODULES = ["virtio_pci", "9pnet_virtio", "9p"]
CONSOLE_TAIL_LINES = 40
QMP_DEADLINE_S = 10.0


class GuestFailed(Exception):
    """The guest did not do in time what was waited for; tells the end of its console."""


@dataclass(frozen=True)
class GuestJob:
    """What runs in the guest. setup: a shell command before it, outside the host's root."""

    nic: str
    binding: str
    program: str
    setup: str = ":"
    cores: int = 2
    memory_mb: int = 1024


class Guest:
    """A running guest. Its NIC sends its frames to `peer_path` and takes those sent to `nic_path`,
    both unix datagram sockets; the peer's must be bound before."""

    def __init__(self, job: GuestJob, folder: Path, cache: Path, peer_path: Path) -> None:
        self.nic_path = folder / "nic"
        self._console = folder / "console"
        self._qmp_path = folder / "qmp"
        self._errors = folder / "qemu-errors"
        kernel = fetch_kernel(cache)
        initramfs = folder / "initramfs"
        driver = NICS[job.nic][1]
        build_initramfs(
            initramfs,
            kernel,
            [*BASE_MODULES, *BINDINGS[job.binding], *([driver] if job.binding == "kernel" else [])],
            {
                "JOB_NIC": NIC_SLOT,
                "JOB_BINDING": job.binding,
                "JOB_SETUP": job.setup,
                "JOB_PROGRAM": job.program,
            },
        )
        command = self._command(job, kernel, initramfs, peer_path)
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self._said = b""
        self._qmp: socket.SocketIO | None = None

    def _command(
        self, job: GuestJob, kernel: Kernel, initramfs: Path, peer_path: Path
    ) -> list[str]:
        iommu = job.binding == "vfio-pci"
        arguments = [
            *("console=ttyS0", "quiet", "panic=-1", "mitigations=off", "random.trust_cpu=on"),
            *("hugepagesz=2M", "hugepages=128"),
            "no_timer_check",  # on a busy machine its tick comes late, and it would give up
            *(("intel_iommu=on", "iommu=nopt") if iommu else ()),
        ]
        properties = NICS[job.nic][0]
        return [
            *("setpriv", "--pdeathsig", "KILL"),  # it must not outlive a caller that was killed
            *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"),
            *("-accel", "tcg", "-M", "q35,kernel-irqchip=split", "-cpu", "max"),
            *("-smp", str(job.cores), "-m", str(job.memory_mb), "-no-reboot"),
            *("-kernel", str(kernel.image), "-initrd", str(initramfs)),
            *("-append", " ".join(arguments)),
            *("-serial", f"file:{self._console}"),
            *("-chardev", "stdio,id=channel,signal=off", "-serial", "chardev:channel"),
            *("-qmp", f"unix:{self._qmp_path},server=on,wait=off"),
            *(("-device", "intel-iommu,intremap=on,aw-bits=48") if iommu else ()),
            *("-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", "virtio-9p-pci,fsdev=root,mount_tag=host"),
            "-netdev",
            f"dgram,id=link,local.type=unix,local.path={self.nic_path},"
            f"remote.type=unix,remote.path={peer_path}",
            "-device",
            f"{job.nic},id=nic,netdev=link,mac={NIC_MAC},addr=03.0,romfile="
            + (f",{properties}" if properties else ""),
        ]

    def wait_for(self, text: str, deadline_s: float) -> str:
        """The first line on the channel that has `text` in it, from what was not yet returned."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + deadline_s
        while True:
            *lines, rest = self._said.split(b"\n")
            for number, line in enumerate(lines):
                if text.encode() in line:
                    self._said = b"\n".join([*lines[number + 1 :], rest])
                    return line.decode().strip()
            left = deadline - time.monotonic()
            if not select.select([self._process.stdout], [], [], max(0.0, left))[0]:
                raise GuestFailed(self.explain(f"no {text!r} within {deadline_s:.0f} s"))
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise GuestFailed(self.explain(f"it ended before it said {text!r}"))
            self._said += data

    def stop(self, deadline_s: float) -> int:
        """Asks the program to end, and returns its exit status."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"stop\n")
        self._process.stdin.flush()
        status = int(self.wait_for("exit ", deadline_s).split()[-1])
        self._process.wait(deadline_s)
        return status

    def set_link(self, up: bool) -> None:
        """Plugs the NIC's cable in or out."""
        self._execute("set_link", {"name": "nic", "up": up})

    def _execute(self, command: str, arguments: dict[str, Any]) -> None:
        if self._qmp is None:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(QMP_DEADLINE_S)
                connection.connect(str(self._qmp_path))
                self._qmp = connection.makefile("rwb", buffering=0)
            self._execute("qmp_capabilities", {})
        assert self._qmp is not None
        self._qmp.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while line := self._qmp.readline():
            answer = json.loads(line)  # or a greeting, or an event
            if "error" in answer:
                raise GuestFailed(self.explain(f"qemu refused {command}: {answer['error']}"))
            if "return" in answer:
                return
        raise GuestFailed(self.explain(f"qemu hung up on {command}"))

    def explain(self, what: str) -> str:
        """`what` went wrong, with what the guest and qemu said last."""
        parts = [what]
        for name, path in (("qemu", self._errors), ("console", self._console)):
            text = path.read_text(errors="replace") if path.exists() else ""
            parts += [f"  {name}: {line}" for line in text.splitlines()[-CONSOLE_TAIL_LINES:]]
        channel = self._said.decode(errors="replace")
        return "\n".join([*parts, *(f"  channel: {line}" for line in channel.splitlines())])

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._qmp):
            if stream is not None:
                stream.close()
